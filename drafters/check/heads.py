"""Rules `lm-head` and `embeddings`: what the drafter owns, and what SGLang lends it from the target."""

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, refused, warned
from k25serve.drafters.checkpoint import Tensor, read_rows

SAMPLED_ROWS = 64


def judge_lm_head(facts: Facts) -> Judgement:
    """The head is stored, or lent by the target: never left random (eagle_worker_v2.py init_lm_head, 0.5.23)."""
    head, d2t, draft = facts.find("lm_head.weight"), facts.find("d2t"), facts.config.get("draft_vocab_size")
    if facts.config.get("tie_word_embeddings"):
        return refused(
            "tie_word_embeddings is true: the head would be the embedding, which is the target's",
            "set it to false and store lm_head, or null draft_vocab_size to borrow the target's head",
        )
    if head is None and draft is not None:
        full = draft == facts.target.size("vocab_size")
        return refused(
            f"no lm_head, though draft_vocab_size is {draft}: it stays random, the engine answers and accepts nothing",
            facts.adapt_command("eagle --lend-lm-head")
            + (", which has SGLang lend the target's" if full else ", which copies the target's rows of d2t's ids"),
        )
    if head is not None and draft is None and "draft_vocab_size" in facts.config:
        return refused(
            "draft_vocab_size is null, so SGLang puts the target's head in place of the drafter's own",
            f"write draft_vocab_size {head.shape[0]} into config.json",
        )
    if head is None and draft is None and d2t is not None:
        return refused(
            "draft_vocab_size is null, so the head is the target's whole one, but there is a d2t",
            "write d2t's length as draft_vocab_size and store the head that belongs to it",
        )
    return passed("lent by the target" if head is None else f"its own, {list(head.shape)}")


def judge_embeddings(facts: Facts) -> Judgement:
    """SGLang gives the drafter the target's embedding, whatever is stored: stored ones should be the same."""
    own, target = facts.find("embed_tokens.weight"), facts.target.embedding
    if own is None:
        return passed("none stored; the target's is lent")
    if own.shape != target.shape:
        return refused(
            f"{own.name} is {list(own.shape)}, the target's is {list(target.shape)}",
            "delete it from the drafter, or use a drafter that was trained for this target",
        )
    if own.dtype != target.dtype:
        return passed(f"stored as {own.dtype}, the target's {target.dtype} is lent in its place")
    differ = _rows_that_differ(own, target)
    if differ:
        return warned(
            f"the drafter's own embedding is not the target's ({differ} of {SAMPLED_ROWS} rows differ), and SGLang "
            "puts the target's in its place",
            "fine if the trainer left it random; if it was trained, run k25serve drafter gate before believing in it",
        )
    return passed("stored, equal to the target's, which is lent")


def _rows_that_differ(own: Tensor, target: Tensor) -> int:
    step = max(1, own.shape[0] // SAMPLED_ROWS)
    rows = range(0, own.shape[0], step)[:SAMPLED_ROWS]
    return sum(a != b for a, b in zip(read_rows(own, rows), read_rows(target, rows), strict=True))
