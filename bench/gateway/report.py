"""The measured rounds as tables for a terminal."""

import statistics
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from k25serve.bench.gateway.bars import (
    DIRECT,
    MEASURES,
    YARDSTICK,
    Measure,
    Rounds,
    ahead,
    cancel_text,
    disturbed,
    values,
    verdicts,
)


def show(console: Console, rounds: Rounds, missing: dict[str, str]) -> None:
    """Prints everything that a reader needs to judge the run."""
    console.print(_measures(rounds))
    console.print(_behaviour(rounds))
    for line in disturbed(rounds):
        console.print(line, markup=False)
    for name, reason in missing.items():
        console.print(f"{name}: not measured: {reason}", markup=False)
    if "k25serve" not in rounds:
        return
    console.print(_verdicts(rounds))
    for line in ahead(rounds):
        console.print(line, markup=False)


def _measures(rounds: Rounds) -> Table:
    table = Table(title="median (min-max) of the rounds; added: over direct in the same round")
    table.add_column("")
    for arm in rounds:
        table.add_column(arm, justify="right")
    for measure in MEASURES:
        table.add_row(measure.name, *(_cell(values(rounds, arm, measure)) for arm in rounds))
    if YARDSTICK in rounds:
        for measure in MEASURES[:2]:
            table.add_row(f"{measure.name} / {YARDSTICK}", *(_cell(_ratios(rounds, arm, measure)) for arm in rounds))
    return table


def _behaviour(rounds: Rounds) -> Table:
    table = Table(
        title="behaviour: engine freed after the client left (worst), fields lost or changed, attempts on a 503"
    )
    found = {arm: next((v["behaviour"] for v in visits if "behaviour" in v), None) for arm, visits in rounds.items()}
    asked = {arm: behaviour for arm, behaviour in found.items() if behaviour is not None}
    for column in ("", *asked):
        table.add_column(column, overflow="fold")
    if not asked:
        return table
    for situation in next(iter(asked.values()))["cancel_ms"]:
        table.add_row(situation, *(cancel_text(b["cancel_ms"][situation]) for b in asked.values()))
    table.add_row("fields", *("\n".join(b["fields"]) or "none" for b in asked.values()))
    table.add_row("attempts on a 503", *(str(b["on_503"]["attempts"]) for b in asked.values()))
    return table


def _verdicts(rounds: Rounds) -> Table:
    table = Table(title="k25serve against its bars")
    for column in ("", "bar", "measured", "verdict", "aim"):
        table.add_column(column)
    for verdict in verdicts(rounds):
        word = {True: "holds", False: "MISSED", None: "-"}[verdict.met]
        table.add_row(verdict.name, verdict.limit, verdict.value, word, verdict.aim)
    return table


def _ratios(rounds: Rounds, arm: str, measure: Measure) -> list[float]:
    """Against the yardstick, round by round."""
    if arm == DIRECT:
        return []
    pairs = zip(values(rounds, arm, measure), values(rounds, YARDSTICK, measure), strict=True)
    return [ours / yardstick for ours, yardstick in pairs]


def _cell(found: Iterable[float]) -> str:
    numbers = sorted(found)
    if not numbers:
        return ""
    middle, low, high = statistics.median(numbers), numbers[0], numbers[-1]
    form = "{:.0f}" if abs(middle) >= 100 else "{:.1f}" if abs(middle) >= 10 else "{:.2f}"
    spread = "" if len(numbers) == 1 else f" ({form.format(low)}-{form.format(high)})"
    return form.format(middle) + spread
