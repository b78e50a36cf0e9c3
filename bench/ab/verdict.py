"""The one sentence, and the data around it. Pure."""

from collections.abc import Sequence

from k25serve.bench.ab.arms import ArmSpec
from k25serve.bench.ab.fairness import check_turns, first_of_each
from k25serve.bench.ab.judge import PRIMARY, overall
from k25serve.bench.ab.parity.compare import compare_parity
from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.result import AbData, Arm, ArmFacts, Comparison, Look, Outcome, Scope, Turn
from k25serve.bench.ab.same_latency import same_latency
from k25serve.bench.ab.turn import TurnRun
from k25serve.bench.ab.units import complete_pairs, pair_up
from k25serve.bench.load.record import MIXED, Cell, RequestRecord
from k25serve.bench.load.result import CellSummary, Finding
from k25serve.bench.load.summary import duration, summarise
from k25serve.bench.load.validity import is_valid


def ab_data(
    arms: dict[Arm, ArmSpec],
    design: Design,
    turns: Sequence[TurnRun],
    looks: Sequence[Look],
    comparisons: Sequence[Comparison],
) -> AbData:
    """Everything for the result file. An invalid run keeps its figures and has no verdict."""
    pairs = pair_up(turns, design)
    found = check_turns(turns, design.load.cells())
    samples = {arm: [sample for turn in turns if turn.arm == arm for sample in turn.parity] for arm in ("A", "B")}
    parity = compare_parity(samples["A"], samples["B"], design.seed)
    if parity is not None and parity.outcome == "different":
        detail = f"the arms do not answer alike: {'; '.join(parity.reasons)}"
        found.append(Finding(severity="warning", code="parity", where="A and B", detail=detail))
    findings = first_of_each(found)
    valid = is_valid(findings) and bool(complete_pairs(turns))
    outcome: Outcome = overall(comparisons) if valid else "invalid"
    return AbData(
        outcome=outcome,
        verdict=sentence(outcome, comparisons, design.scope, findings),
        scope=design.scope,
        arms=(_facts("A", arms["A"], turns), _facts("B", arms["B"], turns)),
        plan=design.facts(),
        looks=tuple(looks),
        comparisons=tuple(comparisons),
        same_latency=same_latency(pairs),
        classes=tuple(_classes(turns)),
        parity=parity,
        findings=tuple(findings),
        valid=valid,
        turns=tuple(_turn(turn) for turn in turns),
    )


def records_of(turns: Sequence[TurnRun]) -> list[RequestRecord]:
    """All records in turn order; prompt_id names pair and block."""
    return [record for turn in turns for run in turn.runs for record in run.records]


def sentence(outcome: Outcome, comparisons: Sequence[Comparison], scope: Scope, findings: Sequence[Finding]) -> str:
    """The verdict with its scope."""
    if outcome == "invalid":
        faults = sorted({finding.code for finding in findings if finding.severity == "invalid"})
        return f"INVALID, no verdict: {', '.join(faults) or 'no pair of turns was finished'}."
    primary = [one for one in comparisons if one.metric == PRIMARY]
    settled = [one for one in primary if one.outcome != "not settled"]
    open_cells = [one for one in primary if one.outcome == "not settled"]
    if outcome == "not settled":
        least = max((one.detectable for one in primary if one.detectable is not None), default=None)
        told = "" if least is None else f"; a gain of {_percent(least)} would have been found in every cell"
        return f"Not settled: no difference in throughput was found {scope}{told}."
    gains = ", ".join(f"{_percent(one.gain)}{_interval(one)} at {one.cell.label}" for one in settled)
    word = {"faster": "B is faster than A", "slower": "B is slower than A", "mixed": "Mixed: B against A is"}[outcome]
    rest = f"; not settled at {', '.join(one.cell.label for one in open_cells)}" if open_cells else ""
    return f"{word} {scope}, by throughput at the same load: {gains}{rest}."


def _percent(gain: float) -> str:
    return f"{(gain - 1) * 100:+.1f} %"


def _interval(one: Comparison) -> str:
    return "" if one.low is None or one.high is None else f" ({_percent(one.low)} to {_percent(one.high)})"


def _facts(name: Arm, arm: ArmSpec, turns: Sequence[TurnRun]) -> ArmFacts:
    first = next((turn for turn in turns if turn.arm == name), None)
    return ArmFacts(
        name=name,
        kind=arm.kind,
        spec=arm.spec,
        endpoint=first.endpoint if first else "",
        model=first.model if first else "",
        server=first.server if first else {},
    )


def _turn(turn: TurnRun) -> Turn:
    cells = tuple(
        summarise(run.cell, run.records, client_cpu_share=run.client_cpu_share, joules=run.joules) for run in turn.runs
    )
    return Turn(arm=turn.arm, pair=turn.pair, boot_s=turn.boot_s, seconds=turn.seconds, cells=cells)


def _classes(turns: Sequence[TurnRun]) -> list[tuple[Arm, CellSummary]]:
    """Each arm's mixed cells by the class of their prompts, all its turns together; described, not tested."""
    arms: tuple[Arm, Arm] = ("A", "B")
    found: list[tuple[Arm, CellSummary]] = []
    for arm in arms:
        runs = [run for turn in turns if turn.arm == arm for run in turn.runs if run.cell.prompt_class == MIXED]
        by_cell: dict[Cell, list[RequestRecord]] = {}
        seconds: dict[Cell, float] = {}
        for run in runs:
            seconds[run.cell] = seconds.get(run.cell, 0.0) + duration(run.records)
            for record in run.records:
                key = run.cell.model_copy(update={"prompt_class": record.asked.prompt_class})
                by_cell.setdefault(key, []).append(record)
        for cell, records in sorted(by_cell.items(), key=lambda item: item[0].label):
            whole = seconds[cell.model_copy(update={"prompt_class": MIXED})]
            found.append((arm, summarise(cell, records, seconds=whole)))
    return found
