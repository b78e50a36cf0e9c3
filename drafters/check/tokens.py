"""Rules `special-tokens` and `tokenizer`: the ids mean the same, and the ones that matter can be drafted."""

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, refused, warned
from k25serve.drafters.checkpoint import end_tokens, read_tokens
from k25serve.drafters.vocab import wanted_tokens

SHOWN = 6


def judge_special_tokens(facts: Facts) -> Judgement:
    """The end of a turn and of thinking can be drafted (else refused), and so can tool-call markers (else warned)."""
    wanted = wanted_tokens(facts.special, end_tokens(facts.target.folder, facts.target.text_config))
    if not wanted.always:
        return warned(
            "the target's folder names no end token",
            "put its generation_config.json and tokenizer files beside the weights",
        )
    if facts.reading is None:
        return passed("the whole vocabulary can be drafted")
    missing = wanted.missing(facts.reading.hot_ids)
    remedy = f"{facts.adapt_command('kimi_k2 --counts rank')}, which swaps the rarest ids for them"
    if missing.always:
        return refused(
            f"outside the draft vocabulary, so never drafted: {_list(missing.always)}; each answer loses a step there",
            remedy,
        )
    if missing.sometimes:
        return warned(f"outside the draft vocabulary, so never drafted: {_list(missing.sometimes)}", remedy)
    return passed(f"{len(wanted.ids)} of {len(wanted.ids)} in the draft vocabulary")


def judge_tokenizer(facts: Facts) -> Judgement:
    """A tokenizer that lies beside the drafter is the target's: same vocabulary, same special tokens."""
    own, target = read_tokens(facts.drafter.folder), read_tokens(facts.target.folder)
    if own is None:
        return _by_ids(facts)
    if target is None:
        return warned(
            f"the drafter has {own.source}, the target's folder has no tokenizer to compare it with",
            "put the target's tokenizer files into its folder",
        )
    if own.source != target.source:
        return warned(
            f"the drafter has {own.source}, the target {target.source}: their vocabularies cannot be compared",
            "put the same form beside both",
        )
    if own.vocabulary != target.vocabulary:
        return refused(
            f"vocabularies differ: {own.source} {own.vocabulary[:12]}, the target's {target.vocabulary[:12]}",
            "use a drafter that was trained with the target's tokenizer",
        )
    moved = [text for text, token in own.special.items() if target.special.get(text, token) != token]
    names = {token: text for text, token in target.special.items()}
    moved += [text for text, token in own.special.items() if names.get(token, text) != text and text not in moved]
    if moved:
        return refused(
            f"special tokens have other ids: {', '.join(moved[:SHOWN])}",
            "use a drafter that was trained with the target's tokenizer",
        )
    new = [text for text in target.special if text not in own.special]
    if new:
        return warned(
            f"same vocabulary; the target adds {len(new)} special tokens: {', '.join(new[:SHOWN])}",
            "expected of a K2 drafter on K2.5: the drafter has never seen them and guesses badly after them",
        )
    return passed(f"same vocabulary ({own.vocabulary[:12]}) and special tokens")


def _by_ids(facts: Facts) -> Judgement:
    differ = [
        f"{key} {own} (the target's {other})"
        for key in ("bos_token_id", "eos_token_id")
        if isinstance(own := facts.config.get(key), int)
        and isinstance(other := facts.target.text_config.get(key), int)
        and own != other
    ]
    if differ:
        return warned(
            f"no tokenizer beside the drafter, and its config differs: {', '.join(differ)}",
            "make sure that it was trained with the target's tokenizer; the engine itself reads neither",
        )
    return passed("none beside the drafter, as is usual; vocab_size, bos and eos do not contradict the target's")


def _list(tokens: dict[str, int]) -> str:
    return ", ".join(f"{text} ({token})" for text, token in list(tokens.items())[:SHOWN])
