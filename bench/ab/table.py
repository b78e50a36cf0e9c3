"""An A/B on a terminal: the plan before it, the verdict after it."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.result import AbData, Comparison, Parity
from k25serve.bench.load.table import MS, WIDTH, show_findings

NAMES = {"tokens_per_s": "tok/s", "tpot": "TPOT ms", "ttft": "TTFT ms"}


def plan_lines(design: Design, a: str, b: str) -> list[str]:
    """What will happen, what it can find, how long it takes."""
    cells = ", ".join(cell.label for cell in design.load.cells())
    found = "nothing" if design.detectable is None else f"a gain of {(design.detectable - 1) * 100:.1f} %"
    looks = ", ".join(str(units) for units in design.look_units)
    return [
        f"A: {a}",
        f"B: {b}",
        f"order: {' '.join(design.order)}, blocks in a turn: {design.blocks}; cells: {cells}",
        f"the verdict will hold {design.scope}: paired t over {design.units} units, looks after {looks} "
        f"({design.spending}), alpha {design.alpha:g} shared by {design.tested} comparisons (Holm)",
        f"with a spread of {design.unit_sd * 100:g} % from unit to unit (assumed) it finds {found} with power "
        f"{design.power:g}",
        f"about {design.hours:.1f} h: boots of {design.boot_s[0] / 60:.1f} and {design.boot_s[1] / 60:.1f} min and "
        f"{design.tpot_s * MS:g} ms a token at concurrency 1 (assumed; told anew after each turn)",
    ]


def show(data: AbData, console: Console) -> None:
    """The comparisons, parity, findings, and the verdict last."""
    console.width = max(console.width, WIDTH)
    table = Table("cell", "metric", "A", "B", "gain of B", "interval", "p", "Holm p", "", box=SIMPLE_HEAD)
    for one in data.comparisons:
        table.add_row(*_row(one))
    console.print(table)
    for same in data.same_latency:
        console.print(
            f"at {same.tpot_s * MS:.1f} ms a token: A {same.tokens_per_s_a:.1f}, B {same.tokens_per_s_b:.1f} tok/s, "
            f"gain {(same.gain - 1) * 100:+.1f} % (described, not tested)",
            highlight=False,
        )
    if data.parity is not None:
        console.print(parity_line(data.parity), highlight=False)
    show_findings(data.findings, console)
    style = "bold" if data.valid else "bold red"
    console.print(data.verdict, style=style, markup=False, highlight=False, soft_wrap=True)


def parity_line(parity: Parity) -> str:
    """In one line."""
    parts = [f"parity: {parity.outcome}"]
    for name, one in (("A and B", parity.between), ("A and A again", parity.within)):
        if one is not None:
            parts.append(f"{name} part in {one.diverged} of {one.prompts} greedy answers")
    if parity.divergence_p is not None:
        parts.append(f"p {parity.divergence_p:.2g}")
    if parity.sampler is not None:
        parts.append(f"sampling p {parity.sampler.p:.2g}")
    parts += [f"{one.arm} {one.what} {one.valid} of {one.complete} valid" for one in parity.structured]
    parts.append(f"prompt tokens differ for {parity.mismatched} of {parity.prompt_tokens}")
    return "; ".join(parts)


def _row(one: Comparison) -> tuple[str, ...]:
    scale = 1.0 if one.metric == "tokens_per_s" else MS
    means = [
        "-" if not values else f"{sum(values) / len(values) * scale:.2f}" for values in (one.values_a, one.values_b)
    ]
    interval = (
        "-" if one.low is None or one.high is None else f"{(one.low - 1) * 100:+.1f} .. {(one.high - 1) * 100:+.1f} %"
    )
    style = {"faster": "[green]faster[/]", "slower": "[red]slower[/]", "not settled": "not settled"}[one.outcome]
    gain = f"{(one.gain - 1) * 100:+.1f} %"
    return one.cell.label, NAMES[one.metric], *means, gain, interval, f"{one.p:.3g}", f"{one.p_adjusted:.3g}", style
