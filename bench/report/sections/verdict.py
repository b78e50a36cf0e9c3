"""Which is faster: the A/B's own sentence, or that there is none."""

from collections.abc import Iterator

from k25serve.bench.ab.result import AbData, Comparison
from k25serve.bench.report.bodies import Compared, ComparedRow, Prove
from k25serve.bench.report.document import Block, Figures, Table, Text
from k25serve.bench.report.numbers import number, optional, percent
from k25serve.bench.report.plots.chart import Ratio, RatioChart
from k25serve.bench.report.sources import Source, Sources, machine_name

METRICS = {"tokens_per_s": "tok/s", "tpot": "TPOT", "ttft": "TTFT"}


def sentence(sources: Sources) -> str:
    """The newest A/B's verdict with what it is of, an invalid one's too; else a campaign's; else a comparison's of
    drafters; without any, that nothing is settled.
    """
    found = [(one, one.body) for one in sources.files if isinstance(one.body, AbData)]
    if found:
        source, newest = found[-1]
        arms = ", ".join(f"{arm.name} is {arm.spec} with {arm.model or 'no model told'}" for arm in newest.arms)
        where = f" on {machine_name(source.result.machine)}" if source.result else ""
        return f"{newest.verdict.rstrip('.')} ({arms}{where})."
    if proved := sources.of(Prove):
        return " ".join(one.sentence for one in proved[-1][1].verdicts)
    if compared := sources.of(Compared):
        return compared_sentence(compared[-1][1])
    return "No verdict: no A/B is among these files, so nothing here says which engine is faster."


def compared_sentence(data: Compared) -> str:
    """What a comparison of drafters found; its passes are of one boot an arm."""
    names = ", ".join(row.name for row in data.rows)
    if data.best is None:
        return f"Not settled which of {names} is fastest, within one boot each."
    gain = next(row.speedup for row in data.rows if row.name == data.best)
    return f"{data.best} is the fastest of {names}, {gain:.2f} times {data.baseline}'s tokens/s, within one boot each."


def against(sources: Sources) -> tuple[Block, ...]:
    """Each A/B: gains with intervals, how it was planned, what it compared."""
    return tuple(block for source, data in sources.of(AbData) for block in _ab(source, data))


def _ab(source: Source, data: AbData) -> Iterator[Block]:
    yield Text(f"{source.label}: {data.verdict}")
    plan = data.plan
    yield Text(
        f"Order {plan.order}, {plan.blocks} blocks a boot; the verdict holds {data.scope}. Paired t on log ratios over "
        f"{plan.units} units, alpha {plan.alpha:g} over {plan.tested} comparisons (Holm), looks after "
        f"{', '.join(map(str, plan.looks))} units ({plan.spending}). Planned to find "
        f"{'nothing' if plan.detectable is None else percent(plan.detectable)} with power {plan.power:g}.",
        "note",
    )
    rows = tuple(
        Ratio(f"{METRICS[one.metric]} {one.cell.label}", one.gain, one.low, one.high, one.outcome)
        for one in data.comparisons
    )
    if rows:
        note = (
            "Gain of B over A, oriented so that to the right of no difference B is the better one. Intervals are not "
            "corrected for the number of comparisons; what is judged (filled: settled) is, by Holm."
        )
        yield Figures((RatioChart(f"Gain of B, {source.label}", rows),), note)
        yield Table(
            ("cell", "metric", "A", "B", "p", "p after Holm", "would have found"),
            tuple(map(_row, data.comparisons)),
            "tok/s; times in ms",
        )
    if data.same_latency:
        yield Table(
            ("TPOT ms", "A tok/s", "B tok/s", "gain of B"),
            tuple(
                (number(one.tpot_s * 1000), number(one.tokens_per_s_a), number(one.tokens_per_s_b), percent(one.gain))
                for one in data.same_latency
            ),
            "At the same latency; described, not tested",
        )


def _row(one: Comparison) -> tuple[str, ...]:
    scale = 1.0 if one.metric == "tokens_per_s" else 1000.0
    means = (optional(sum(v) / len(v) * scale if v else None) for v in (one.values_a, one.values_b))
    found = "-" if one.detectable is None else percent(one.detectable)
    return one.cell.label, METRICS[one.metric], *means, f"{one.p:.3g}", f"{one.p_adjusted:.3g}", found


def drafters(sources: Sources) -> tuple[Block, ...]:
    """Ways to speculate with the same prompts."""
    return tuple(block for source, data in sources.of(Compared) for block in _compared(source, data))


def _compared(source: Source, data: Compared) -> Iterator[Block]:
    yield Text(f"{source.label}: {compared_sentence(data)}")
    yield Text("N-gram speculation remembers answers: passes after its first, which ask the same, flatter it.", "note")
    yield Table(
        ("arm", "tok/s", "slowest", "fastest", "accept length", "of baseline", "judged", "passes", "tokens", "failed"),
        tuple(map(_arm, data.rows)),
        "Median, slowest and fastest of the passes; settled where ranges do not overlap and medians are 3 % apart",
    )


def _arm(row: ComparedRow) -> tuple[str, ...]:
    speeds = (row.tokens_per_second, row.tokens_per_second_min, row.tokens_per_second_max)
    tail = (str(len(row.passes)), str(row.completion_tokens), str(row.failures))
    return row.name, *map(number, speeds), optional(row.accept_length), f"{row.speedup:.2f}", row.verdict, *tail
