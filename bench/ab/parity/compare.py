"""Parity samples of both arms -> is it the same model? Pure."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from scipy import stats

from k25serve.bench.ab.parity.sample import Greedy, ParitySample, Unit
from k25serve.bench.ab.result import Arm, Divergence, Parity, Sampler, Structured
from k25serve.bench.ab.stats.permutation import same_distribution

LEVEL = 0.01  # of each test: an alarm should mean something
NEAR_TIE = 0.5  # nat; a wider gap doesn't flip by rounding
WIDE_SHARE = 0.5  # of the partings, from which on their width is an alarm
LEAST_PROMPTS = 8


def compare_parity(a: Sequence[ParitySample], b: Sequence[ParitySample], seed: int) -> Parity | None:
    """a: two passes of arm A, better of two boots, else of one; b: one or more of B. None without a pass of each."""
    if not a or not b:
        return None
    between = diverge(a[0], b[0])
    within = diverge(a[0], a[1]) if len(a) > 1 else None
    divergence_p = None
    if within is not None:
        rows = [[one.diverged, one.prompts - one.diverged] for one in (between, within)]
        divergence_p = float(stats.fisher_exact(rows, alternative="greater").pvalue)
    sampler = _sampler(a[0], b[0], seed)
    structured = (*_structured("A", a[0]), *_structured("B", b[0]))
    counts = [(x.prompt_tokens, y.prompt_tokens) for x, y in _pairs(a[0], b[0])]
    told = [(x, y) for x, y in counts if x is not None and y is not None]
    mismatched = sum(x != y for x, y in told)
    reasons = [*_reasons(between, divergence_p, sampler, structured)]
    if mismatched:
        reasons.append(f"{mismatched} of {len(told)} prompts have other token counts: the chat template differs")
    measured = between.prompts >= LEAST_PROMPTS and within is not None
    return Parity(
        between=between,
        within=within,
        divergence_p=divergence_p,
        sampler=sampler,
        structured=structured,
        prompt_tokens=len(told),
        mismatched=mismatched,
        outcome="different" if reasons else "same" if measured else "not measured",
        reasons=tuple(reasons),
    )


def diverge(one: ParitySample, other: ParitySample) -> Divergence:
    """Where the greedy answers to the same prompts part; by character where one of the two has no tokens."""
    unit: Unit = "token" if one.unit == other.unit == "token" else "character"
    first, gaps, compared, prompts = [], [], 0, 0
    for x, y in _pairs(one, other):
        left, right = (x.pieces, y.pieces) if unit == "token" else ("".join(x.pieces), "".join(y.pieces))
        parted = next((i for i, (p, q) in enumerate(zip_longest(left, right)) if p != q), None)
        prompts += 1
        compared += min(len(left), len(right)) if parted is None else parted + 1
        if parted is None:
            continue
        first.append(parted)
        if unit == "token":
            gaps += sorted(_gaps_at(x, y, parted))[:1]
    return Divergence(
        prompts=prompts, diverged=len(first), unit=unit, compared=compared, first=tuple(first), gaps=tuple(gaps)
    )


def _gaps_at(x: Greedy, y: Greedy, position: int) -> list[float]:
    found = [greedy.gaps[position] for greedy in (x, y) if position < len(greedy.gaps)]
    return [gap for gap in found if gap is not None]


def _pairs(one: ParitySample, other: ParitySample) -> Iterator[tuple[Greedy, Greedy]]:
    others = {greedy.prompt_id: greedy for greedy in other.greedy}
    return ((greedy, others[greedy.prompt_id]) for greedy in one.greedy if greedy.prompt_id in others)


def _sampler(a: ParitySample, b: ParitySample, seed: int) -> Sampler | None:
    texts_a, texts_b = ({one.prompt_id: one.texts for one in sample.sampled} for sample in (a, b))
    p = same_distribution(texts_a, texts_b, seed)
    if p is None:
        return None
    both = texts_a.keys() & texts_b.keys()
    return Sampler(prompts=len(both), samples=min(len(part[name]) for part in (texts_a, texts_b) for name in both), p=p)


def _structured(arm: Arm, sample: ParitySample) -> Iterator[Structured]:
    for one in sample.checked:
        yield Structured(arm=arm, what=one.what, asked=one.asked, complete=one.complete, valid=one.valid)


def _reasons(
    between: Divergence, divergence_p: float | None, sampler: Sampler | None, structured: Sequence[Structured]
) -> Iterator[str]:
    if divergence_p is not None and divergence_p < LEVEL:
        yield f"greedy answers of A and B part more often than A's from its own (p {divergence_p:.2g})"
    wide = sum(gap > NEAR_TIE for gap in between.gaps)
    if between.gaps and wide > WIDE_SHARE * len(between.gaps) and wide > 2:
        yield f"{wide} of {len(between.gaps)} greedy answers part where the top two are over {NEAR_TIE} nat apart"
    if sampler is not None and sampler.p < LEVEL:
        yield f"sampled answers are not from one distribution (p {sampler.p:.2g})"
    for what in ("tool_calls", "json"):
        a, b = ([one for one in structured if one.what == what and one.arm == arm] for arm in ("A", "B"))
        if not a or not b:
            continue
        rows = [[one[0].valid, one[0].complete - one[0].valid] for one in (a, b)]
        p = float(stats.fisher_exact(rows).pvalue)
        if p < LEVEL:
            told = [f"{one[0].valid} of {one[0].complete} in {arm}" for arm, one in (("A", a), ("B", b))]
            yield f"{what}: valid are {' and '.join(told)} (p {p:.2g})"
