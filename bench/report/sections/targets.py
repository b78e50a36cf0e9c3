"""The campaign's targets beside what was measured on the hardware that they are for."""

from k25serve.bench.report.campaign import Campaign, Target
from k25serve.bench.report.curves import Measured, Panel, panels
from k25serve.bench.report.document import Block, Table
from k25serve.bench.report.numbers import ranged
from k25serve.bench.report.sources import Sources


def targets(sources: Sources, campaign: Campaign) -> tuple[Block, ...]:
    """A row an arm that was measured for a target, or one that says that none was."""
    found = panels(sources)
    rows = [row for target in campaign.targets for row in _rows(target, found)]
    head = ("target", "tokens/s", "measured", "arm", "")
    return (Table(head, tuple(rows)),) if rows else ()


def _rows(target: Target, found: list[Panel]) -> list[tuple[str, ...]]:
    bound = f"over {target.more_than:g}" if target.more_than is not None else f"at least {target.at_least:g}"
    name = f"{target.what}, C={target.concurrency}"
    rows: list[tuple[str, ...]] = [
        (name, bound, _shown(one), arm, "met" if target.met(one.tokens_per_s.value) else "not met")
        for panel in found
        if panel.context == 0 and on_hardware(target, panel)
        for arm, measured in panel.arms.items()
        for one in measured
        if one.concurrency == target.concurrency
    ]
    return rows or [(name, bound, "-", f"no result of {target.gpus}x {target.gpu}", "not measured")]


def on_hardware(target: Target, panel: Panel) -> bool:
    """Whether the machine has the target's GPUs, all of them."""
    gpus = panel.source.result.machine.gpus if panel.source.result else ()
    return len(gpus) == target.gpus and all(target.gpu in name for name in gpus)


def _shown(one: Measured) -> str:
    told = one.tokens_per_s
    return ranged(told.value, told.low, told.high)
