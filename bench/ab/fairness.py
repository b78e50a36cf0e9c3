"""Were both arms measured alike? Whatever makes the comparison worthless, from the turns alone. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from k25serve.bench.ab.turn import CellRun, TurnRun
from k25serve.bench.ab.units import complete_pairs, runs_of
from k25serve.bench.load import metrics
from k25serve.bench.load.record import Cell, RequestRecord
from k25serve.bench.load.result import Finding
from k25serve.bench.load.validity import check_cell, check_client, check_clock

MOST_CACHED_DIFFERENCE = 0.2  # of the prompt tokens of a cell
PRECISION = ("kv_cache_dtype", "dtype", "quantization")


def check_turns(turns: Sequence[TurnRun], cells: Sequence[Cell]) -> list[Finding]:
    """Each turn by itself, then each pair of turns."""
    found: list[Finding] = []
    for turn in turns:
        found += check_clock(turn.clock, f"{turn.arm} in pair {turn.pair}")
        for run in turn.runs:
            own = [*check_cell(run.cell, run.records), *check_client(run.cell, run.client_cpu_share)]
            found += [one.model_copy(update={"where": f"{turn.arm}, {one.where}, pair {turn.pair}"}) for one in own]
    for a, b in complete_pairs(turns):
        for cell in cells:
            for run_a, run_b in zip(runs_of(a, cell), runs_of(b, cell), strict=True):
                where = f"{cell.label}, pair {a.pair}, block {run_a.block}"
                found += [Finding(severity="invalid", code=c, where=where, detail=d) for c, d in _faults(run_a, run_b)]
    return [*found, *_precision(turns)]


def first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """One finding of a code, arm or pair alike, with how many there are: the rest say the same."""

    def key(finding: Finding) -> tuple[bool, str, str]:
        return finding.severity != "invalid", finding.code, finding.where.partition(",")[0]

    kept = []
    for _, group in groupby(sorted(findings, key=key), key):
        same = list(group)
        more = f" (and {len(same) - 1} more like it)" if len(same) > 1 else ""
        kept.append(same[0].model_copy(update={"detail": same[0].detail + more}))
    return kept


def _faults(a: CellRun, b: CellRun) -> Iterator[tuple[str, str]]:
    asked_a, asked_b = ([record.asked for record in run.records] for run in (a, b))
    if asked_a != asked_b:
        differing = sum(x != y for x, y in zip(asked_a, asked_b, strict=False)) + abs(len(asked_a) - len(asked_b))
        yield "prompts", f"{differing} requests differ between the arms: prompts, seeds and lengths must be the same"
        return
    good = [pair for pair in zip(a.records, b.records, strict=True) if all(map(metrics.answered, pair))]
    counted = [(x.tokens, y.tokens) for x, y in good if x.tokens is not None and y.tokens is not None]
    if unequal := [(x.prompt, y.prompt) for x, y in counted if x.prompt != y.prompt]:
        told = f"{len(unequal)} of {len(counted)} prompts, the first {unequal[0][0]} and {unequal[0][1]} tokens"
        yield "template", f"A and B count {told}: the chat template or the tokenizer differs; give both the same one"
    shares = [_cached(run.records) for run in (a, b)]
    if abs((shares[0] or 0.0) - (shares[1] or 0.0)) > MOST_CACHED_DIFFERENCE:
        found = ["not told" if share is None else f"{share:.0%}" for share in shares]
        remedy = "flush both, or let both tell (SGLang --enable-cache-report, vLLM --enable-prompt-tokens-details)"
        yield "cached", f"prompt tokens from the prefix cache: A {found[0]}, B {found[1]}; {remedy}"


def _cached(records: Sequence[RequestRecord]) -> float | None:
    """Engines leave the count out where it is 0; None where no answer has one."""
    counted = [record.tokens for record in records if record.tokens is not None]
    told = [tokens.cached for tokens in counted if tokens.cached is not None]
    prompt = sum(tokens.prompt for tokens in counted)
    return sum(told) / prompt if told and prompt else None


def _precision(turns: Sequence[TurnRun]) -> Iterator[Finding]:
    for key in PRECISION:
        values = {arm: {t.server.get(key) for t in turns if t.arm == arm} - {None} for arm in ("A", "B")}
        if values["A"] and values["B"] and values["A"] != values["B"]:
            told = " and ".join(f"{arm} {', '.join(sorted(map(str, found)))}" for arm, found in values.items())
            detail = f"{key} is {told}: a lower precision may be what makes one faster"
            yield Finding(severity="warning", code="precision", where="A and B", detail=detail)
