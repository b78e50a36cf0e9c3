"""Rules `vocab-size`, `d2t-form`, `d2t-range` and `t2d`: from draft ids to the target's."""

from itertools import pairwise

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, refused, warned
from k25serve.drafters.vocab import Form, find_faults


def judge_vocab_size(facts: Facts) -> Judgement:
    """vocab_size is the target's; draft_vocab_size, lm_head's rows and d2t's length are one number."""
    config, target = facts.config, facts.target.size("vocab_size")
    if config["vocab_size"] != target:
        return refused(
            f"vocab_size {config['vocab_size']}, the target's is {target}",
            "use a drafter that was trained for this target: ids of another vocabulary mean other tokens",
        )
    draft = facts.draft_vocab_size
    if draft > target:
        return refused(f"draft_vocab_size {draft} is more than vocab_size {target}", "write lm_head's number of rows")
    head, d2t = facts.find("lm_head.weight"), facts.find("d2t")
    for what, tensor in (("rows of lm_head", head), ("entries of d2t", d2t)):
        if tensor is not None and tensor.shape[0] != draft:
            return refused(
                f"draft_vocab_size {draft}, but {tensor.shape[0]} {what}",
                f"write {tensor.shape[0]} into config.json if that is what was trained, else rebuild the map",
            )
    return passed(f"{draft} of {target} ids" if draft < target else f"the target's whole {target}")


def judge_d2t_form(facts: Facts) -> Judgement:
    """d2t is there where it is needed, and holds offsets: SGLang reads target id = draft id + d2t[draft id]."""
    tensor, target = facts.find("d2t"), facts.target.size("vocab_size")
    if tensor is None:
        if facts.draft_vocab_size < target:
            return refused(
                f"no d2t, though the drafter has {facts.draft_vocab_size} of {target} ids: "
                "draft ids would be taken for the target's",
                "get the drafter's vocabulary map (d2t) from its source; without it the drafter is worthless",
            )
        return passed("none, and none needed: draft ids are the target's")
    adapt = facts.adapt_command("kimi_k2")
    if tensor.dtype != "I64" or len(tensor.shape) != 1:
        return refused(f"{tensor.name} is {tensor.dtype} {list(tensor.shape)}, an int64 list belongs there", adapt)
    reading = facts.reading
    if reading is not None and reading.form is Form.ABSOLUTE:
        return refused(
            "d2t holds target ids, SGLang reads offsets: no draft would be accepted", f"{adapt}, which writes offsets"
        )
    if reading is not None and reading.form is Form.AMBIGUOUS:
        return refused(
            "d2t makes sense as offsets and as target ids, and there is no t2d that says which",
            f"{facts.adapt_command('kimi_k2 --d2t-form offset')}, or absolute, as its trainer wrote it",
        )
    return passed("offsets: target id = draft id + d2t[draft id]")


def judge_d2t_range(facts: Facts) -> Judgement:
    """Target ids lie in the vocabulary, none twice, and ascend as every trainer writes them."""
    reading, target = facts.reading, facts.target.size("vocab_size")
    if reading is None:
        return passed("no d2t")
    faults, hot = find_faults(reading.hot_ids, target), reading.hot_ids
    for what, places in (("outside the target's vocabulary", faults.outside), ("twice", faults.repeated)):
        if places:
            return refused(
                f"{len(places)} draft ids map {what}, the first is {places[0]} to {hot[places[0]]}",
                "get d2t from the drafter's source again; this one is damaged",
            )
    if any(second < first for first, second in pairwise(hot)):
        return warned(
            "target ids do not ascend, as every trainer writes them: the map may be shuffled against lm_head's rows",
            "run k25serve drafter gate; if nothing is accepted, get d2t from the drafter's source again",
        )
    return passed(f"{len(hot)} distinct ids from {hot[0]} to {hot[-1]}, ascending")


def judge_t2d(facts: Facts) -> Judgement:
    """t2d, where it is stored, marks exactly d2t's ids; trainers number draft ids by its order."""
    tensor, target = facts.find("t2d"), facts.target.size("vocab_size")
    if tensor is None:
        return passed("not stored; SGLang does not read it")
    if tensor.dtype not in ("BOOL", "U8") or tensor.shape != (target,):
        return refused(
            f"{tensor.name} is {tensor.dtype} {list(tensor.shape)}, not BOOL [{target}]", "delete it, or rebuild"
        )
    marked = tuple(token for token, flag in enumerate(facts.hot or b"") if flag)
    hot = facts.reading.hot_ids if facts.reading is not None else tuple(range(target))
    if set(marked) != set(hot):
        only_d2t, only_t2d = set(hot) - set(marked), set(marked) - set(hot)
        return refused(
            f"t2d and d2t disagree: {len(only_d2t)} ids only in d2t, {len(only_t2d)} only in t2d "
            f"(as id {min(only_d2t | only_t2d)})",
            "one of them is from another drafter: take both from one source",
        )
    if marked != hot:
        place = next(place for place, pair in enumerate(zip(marked, hot, strict=True)) if pair[0] != pair[1])
        return refused(
            f"d2t is shuffled: draft id {place} maps to {hot[place]}, by t2d's order it is {marked[place]}",
            "get d2t from the drafter's source again, or rebuild it from t2d",
        )
    return passed(f"marks d2t's {len(hot)} ids in order")
