"""The campaign in Markdown. Pure."""

from collections.abc import Mapping, Sequence

from k25serve.bench.prove.journal import Entry
from k25serve.bench.prove.verdict import ProfileVerdict, Swept, mixed_cells

MET = {True: "met", False: "missed", None: "not settled"}
MINUTE_S = 60


def summary(verdicts: Sequence[ProfileVerdict], arms: Sequence[Swept], steps: Mapping[str, Entry]) -> str:
    """Verdict first, then targets, speeds of all arms, and how each step ended."""
    parts = ["# Is it faster?", *(one.sentence for one in verdicts)]
    for one in verdicts:
        rows = [(each.what, each.wanted, each.found, MET[each.met]) for each in one.criteria]
        parts += [f"## {one.profile} against the targets", _table(("", "wanted", "found", ""), rows)]
    parts += ["## Throughput, tok/s", _table(("C", *(arm.name for arm in arms)), _throughput(arms))]
    parts.append("One boot of each arm, the same prompts. `k25serve bench ab` tells what holds across boots.")
    ended = [
        (name, entry.status, f"{entry.seconds / MINUTE_S:.1f}", entry.told, entry.file) for name, entry in steps.items()
    ]
    parts += ["## Steps", _table(("step", "", "min", "told", "file"), ended)]
    return "\n\n".join(parts) + "\n"


def _throughput(arms: Sequence[Swept]) -> list[tuple[str, ...]]:
    cells = [mixed_cells(arm.data) for arm in arms]
    levels = sorted({level for one in cells for level in one})
    return [
        (str(level), *(f"{one[level].tokens_per_s:.1f}" if level in one else "-" for one in cells)) for level in levels
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
