"""An estimate on a terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from k25serve.drafters.training.estimate.assumptions import assumptions
from k25serve.drafters.training.estimate.estimate import Estimate
from k25serve.drafters.training.estimate.recommend import recommend

STEPS = ("regenerate", "capture", "fit", "loads")
WHAT = {
    "regenerate": "the target answers all prompts",
    "capture": "prefill of all samples, hidden states written",
    "fit": "the drafter is trained",
    "loads": "weights read at each start of the engine",
}


def amount(value: float) -> str:
    """Hours, terabytes: three digits, the small ones as well."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def estimate_table(found: Estimate) -> Group:
    """Hours by step, memory, disk, cost, the recommendation, the assumptions."""
    steps = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("step", "hours", "what"):
        steps.add_column(column, justify="right" if column == "hours" else "left")
    for name in STEPS:
        steps.add_row(name, amount(getattr(found.hours, name)), WHAT[name])
    steps.add_section()
    steps.add_row("total", amount(found.hours.total), f"{amount(found.gpu_hours)} GPU-hours on {found.machine.name}")
    facts = Table.grid(padding=(0, 2))
    for name, value in fact_lines(found):
        facts.add_row(Text(name, style="bold"), value)
    notes = Text("\n".join(f"- {line}" for line in assumptions(found.machine, found.target, found.options)))
    return Group(
        steps,
        facts,
        Text(f"\n{recommend(found)}", style="bold"),
        Text("\nAssumptions", style="bold"),
        notes,
    )


def fact_lines(found: Estimate) -> list[tuple[str, str]]:
    """What is not hours, by name."""
    space, target = found.room, found.target
    fits = "engine and trainer fit side by side" if space.beside else "no room to train beside the engine"
    lines = [
        ("tokens", f"{found.options.tokens:,} in {found.options.samples:,} samples, {found.options.epochs} epoch(s)"),
        (
            "hidden states",
            f"{amount(found.hidden_tb)} TB, {target.hidden_bytes_per_token:,} bytes a token"
            + (f", in {found.shards} parts" if found.alternates else ""),
        ),
        (
            "memory a GPU",
            f"{space.memory:g} GB: weights {space.weights:.1f}, engine {space.runtime:.1f}, KV {space.kv:.1f} for "
            f"{space.requests} requests, {space.capture_kv:.1f} for a capture, which leaves {max(0, space.free):.1f}; "
            f"training needs {space.training:.1f}: {fits}",
        ),
        ("drafter", f"{found.draft.trainable / 1e6:,.1f} M parameters trained"),
    ]
    if found.cost is not None:
        lines.append(("cost", f"{found.cost:,.0f} at {found.options.price_per_gpu_hour:g} a GPU-hour"))
    return lines
