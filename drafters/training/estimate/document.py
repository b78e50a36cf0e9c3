"""`--write`: the plan of the whole run as Markdown, for a given machine and profile."""

import os
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.estimate.assumptions import assumptions
from k25serve.drafters.training.estimate.estimate import Estimate
from k25serve.drafters.training.estimate.gates import gates
from k25serve.drafters.training.estimate.recommend import elsewhere, recommend
from k25serve.drafters.training.estimate.table import STEPS, WHAT, amount, fact_lines


def write_document(found: Estimate, profile: str, path: Path) -> None:
    """Write it in one step. Raises TrainingError where something is there already: it may hold your own notes."""
    if path.exists():
        raise TrainingError(f"--write {path}: is there already; remove it, or give another name")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(document(found, profile), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise TrainingError(f"--write {path}: cannot be written ({error.strerror}); give another file") from None


def document(found: Estimate, profile: str) -> str:
    """The document's text."""
    parts = [
        f"# Next steps: an EAGLE-3 drafter for {found.target.name} on {found.machine.name}",
        f"By `k25serve drafter train estimate`, for {found.options.samples:,} samples of "
        f"{found.options.prompt_tokens:,} + {found.options.generated_tokens:,} tokens and the profile `{profile}`. "
        "Make it anew when one of them changes.",
        f"**{recommend(found)}**",
        "## What it takes\n\n" + _table(found),
        "## Gates: stop at the first no\n\n" + _numbered(gates(found, profile)),
        "## The run, in order\n\n" + _order(found, profile),
        "## What can go wrong\n\n" + _bullets(_risks(found)),
        "## What was assumed\n\n" + _bullets(assumptions(found.machine, found.target, found.options)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(found: Estimate) -> str:
    rows = [f"| {name} | {amount(getattr(found.hours, name))} | {WHAT[name]} |" for name in STEPS]
    total = f"| **total** | **{amount(found.hours.total)}** | {amount(found.gpu_hours)} GPU-hours |"
    facts = [f"- {name}: {value}" for name, value in fact_lines(found)]
    if found.cost is None:
        facts.append("- cost: give `--price-per-gpu-hour`")
    facts += [
        f"- the same on {other.machine}: {amount(other.hours)} hours, {amount(other.gpu_hours)} GPU-hours"
        + _price(found, other.gpu_hours)
        for other in elsewhere(found)
    ]
    return "\n".join(["| step | hours | |", "|---|---|---|", *rows, total, "", *facts])


def _price(found: Estimate, gpu_hours: float) -> str:
    price = found.options.price_per_gpu_hour
    return "" if price is None else f", {gpu_hours * price:,.0f} at the same price"


def _order(found: Estimate, profile: str) -> str:
    hidden = amount(found.hidden_tb / found.shards)
    again = f", {found.shards} times in turn with the fit" if found.alternates else ""
    steps = [
        "Take a copy of the configuration and name your files, target and drafter to start from in it:\n"
        "   `k25serve drafter train run --config packaged:k25 --show > k25.yaml`; "
        f"`engine.profile: {profile}`.\n   `k25serve drafter train run --config k25.yaml --out RUN --plan` then tells "
        "sizes and times of your own files. Start warm from the best drafter that there is; scratch takes the public "
        "recipes' 600,000 samples.",
        "The smoke run, everything with ten samples:\n"
        "   `k25serve drafter train run --config k25.yaml --out SMOKE --smoke`",
        f"Samples: prompts of your own traffic, answers written anew by the target ({amount(found.hours.regenerate)} "
        "hours) on the engine that `data.regenerate.url` names:\n   `k25serve drafter train run --config k25.yaml "
        "--out RUN --until data`; then stop that engine, the GPUs hold one."
        if found.options.regenerate
        else "Samples: conversations whose answers the target wrote: `k25serve drafter train data --help`.",
        f"Everything else, in one command that can be killed and goes on: `k25serve drafter train run --config "
        f"k25.yaml --out RUN`. It captures ({amount(found.hours.capture)} hours, {hidden} TB at a time{again}), "
        f"stops the engine, fits ({amount(found.hours.fit)} hours), exports, serves it, measures its acceptance.",
        "Look at it: `RUN/fit/curves.jsonl`, `RUN/drafter/`; `k25serve drafter check --drafter RUN/drafter --target "
        "TARGET`, then the last gate.",
        "Serve it: `speculation.drafter` of the profile; the old drafter's folder stays for the way back.",
        "Free the disk: `RUN/hidden/` is the bulk; `RUN/data` and `RUN/fit` make the drafter again.",
    ]
    return _numbered(steps)


def _risks(found: Estimate) -> list[str]:
    space = found.room
    fits = (
        f"{space.training:.0f} GB for training fit into the {space.free:.0f} GB that the engine leaves on each GPU"
        if space.beside
        else f"training needs {space.training:.0f} GB a GPU and the engine with its {space.weights:.0f} GB of weights "
        f"leaves {max(0.0, space.free):.0f}: while the drafter is fitted, nothing is served"
    )
    risks = [
        f"Memory: {fits}.",
        f"Down time: each engine start reads {found.target.weight_bytes / 1e9:.0f} GB "
        f"({amount(found.target.weight_bytes / found.machine.load_gb_s / 3.6e12)} hours).",
        f"Disk: {found.target.hidden_bytes_per_token:,} bytes a token; with `hidden_bytes` the run keeps one part "
        "at a time, each fitted from the drafter of the part before it.",
        "Rates: what is called a guess below can be off by a factor of two. The run prints its own after minutes; "
        "compare before the first night.",
        "Domain: a drafter forgets what the new samples leave out. Keep a share of general ones and look at each class "
        "of the gate, not at the mean.",
        "Format: aux layers by two conventions, d2t in two forms, rope and context; `k25serve drafter check` looks at "
        "all of them.",
        "Images: the samples are text; acceptance on image requests is whatever it turns out to be. Measure it.",
    ]
    if found.machine.links == "pcie":
        risks.append("Links: all-reduce over PCIe bounds prefill; more GPUs of the same kind do not mend that.")
    return risks


def _numbered(items: list[str]) -> str:
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def _bullets(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
