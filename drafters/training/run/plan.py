"""What a run will take, before and while it runs: from the data where it is finished, else from its inputs' size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from k25serve.drafters.training.estimate import Estimate, EstimateOptions, estimate
from k25serve.drafters.training.estimate.hours import DECODE_GROWTH
from k25serve.drafters.training.run.data_steps import Sizes, read_sizes
from k25serve.drafters.training.run.parts import PART
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.work import Work

# Of texts and templates on one core, and of counting; export and check read the drafter a few times.
DATA_TOKENS_PER_S, VOCAB_TOKENS_PER_S, EXPORT_S = 30_000.0, 2_000_000.0, 10.0
BYTES_A_TOKEN = 4.0
PACKAGED_TOKENS = 145  # mean of the packaged chats
MEAN_ROW = 1000  # tokens of a conversation of unknown length
MINUTE, HOUR = 60.0, 3600.0


@dataclass(frozen=True)
class Planned:
    """One row of the plan."""

    name: str
    seconds: float
    nbytes: float
    what: str


def known_sizes(work: Work) -> Sizes:
    """Of the data where it is finished, else a guess from what it is made of."""
    found = read_sizes(work)
    if found is not None:
        return found
    data = work.config.data
    tokens, rows = float(data.packaged * PACKAGED_TOKENS), data.packaged
    from k25serve.drafters.training.data.files import found_files

    for path in found_files(data.inputs):
        more = path.stat().st_size / BYTES_A_TOKEN
        tokens, rows = tokens + more, rows + max(1, int(more / MEAN_ROW))
    if data.max_conversations is not None and rows > data.max_conversations:
        tokens, rows = tokens * data.max_conversations / rows, data.max_conversations
    held_out = round(rows * data.held_out)
    return Sizes(
        train_rows=max(1, rows - held_out),
        train_tokens=max(1, round(tokens * (1 - data.held_out))),
        held_out_rows=held_out,
        held_out_tokens=round(tokens * data.held_out),
    )


def estimate_of(work: Work, sizes: Sizes) -> Estimate:
    """The general estimate for this run's target, drafter and machine."""
    layer, rows = work.config.fit.draft_layer, sizes.train_rows + sizes.held_out_rows
    tokens = sizes.train_tokens + sizes.held_out_tokens
    return estimate(
        EstimateOptions(
            samples=max(1, rows),
            prompt_tokens=1,
            generated_tokens=max(1, round(tokens / max(1, rows)) - 1),
            regenerate=work.config.data.regenerate is not None,
            machine=work.config.machine,
            target=work.target,
            ttt_steps=work.config.fit.ttt_steps,
            draft_vocab_size=work.config.vocab.draft_vocab_size or 10**9,
            draft_intermediate_size=layer.intermediate_size,
            max_length=work.config.fit.tokens_per_batch,
        )
    )


def expected_seconds(work: Work, steps: Sequence[Step]) -> dict[str, float]:
    """By step."""
    sizes = known_sizes(work)
    found, everything = estimate_of(work, sizes), sizes.train_tokens + sizes.held_out_tokens
    start = found.hours.loads * HOUR / (found.shards or 1)
    capture = everything / found.rates.prefill
    fit = fit_seconds(work, sizes, found.rates.fit)
    count = sum(step.name.startswith(PART) for step in steps)
    seconds = {
        "data": 5 + everything / DATA_TOKENS_PER_S + found.hours.regenerate * HOUR,
        "vocab": 3 + everything / VOCAB_TOKENS_PER_S,
        "capture": start + capture,
        "fit": 1.0 if count else fit,
        "export": EXPORT_S,
        "gate": _gate_seconds(work, found, start),
    }
    part = start + (capture + fit) / max(1, count) + EXPORT_S
    return {step.name: seconds.get(step.name, part) for step in steps}


def fit_seconds(work: Work, sizes: Sizes, rate: float) -> float:
    """Whichever end comes first, for all parts together."""
    options = work.config.fit
    ends = []
    if options.max_steps is not None:
        ends.append(options.max_steps * options.tokens_per_batch / rate)
    if options.epochs is not None:
        ends.append(options.epochs * sizes.train_tokens / rate)
    if options.max_minutes is not None:
        ends.append(options.max_minutes * MINUTE)
    return min(ends)


def plan_rows(work: Work, steps: Sequence[Step]) -> list[Planned]:
    """Every step with its time and what it leaves on the disk."""
    sizes, seconds = known_sizes(work), expected_seconds(work, steps)
    token = estimate_of(work, sizes).target.hidden_bytes_per_token
    count = max(1, sum(step.name.startswith(PART) for step in steps))
    everything, guessed = sizes.train_tokens + sizes.held_out_tokens, read_sizes(work) is None
    rows, sure = f"{sizes.train_rows:,} + {sizes.held_out_rows:,} samples", "a guess of " if guessed else ""
    told: dict[str, tuple[float, str]] = {
        "data": (17.0 * everything, f"{sure}{rows}, {everything:,} tokens"),
        "vocab": (9.0 * (work.config.vocab.draft_vocab_size or 0), "d2t, t2d"),
        "capture": (
            float(everything * token),
            f"engine {work.config.engine.profile}, layers {list(work.config.engine.layers)}; {token:,} bytes a token",
        ),
        "fit": (0.0, f"{work.config.fit.ttt_steps} unrolled steps, {_end(work)}"),
        "export": (0.0, "SGLang's layout, checked"),
        "gate": (0.0, _gate_text(work)),
    }
    part = (sizes.train_tokens * token / count, "capture, fit, export, drop the states")
    return [Planned(step.name, seconds[step.name], *told.get(step.name, part)) for step in steps]


def plan_table(rows: Sequence[Planned], done: Sequence[str]) -> Any:
    """The plan on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("step", "about", "disk", "what"):
        table.add_column(column, justify="right" if column in ("about", "disk") else "left")
    left = 0.0
    for row in rows:
        finished = row.name in done
        left += 0.0 if finished else row.seconds
        size = size_text(row.nbytes) if row.nbytes else ""
        table.add_row(row.name, "done" if finished else time_text(row.seconds), size, row.what)
    table.add_section()
    table.add_row("left", time_text(left), "", "")
    return table


def time_text(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


def size_text(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _gate_seconds(work: Work, found: Estimate, start: float) -> float:
    gate = work.config.gate
    if gate is None:
        return 0.0
    one = found.rates.decode / math.pow(found.machine.decode_concurrency, DECODE_GROWTH)
    return (1 if gate.baseline is None else 2) * (start + gate.prompts * gate.max_tokens / one)


def _gate_text(work: Work) -> str:
    gate = work.config.gate
    if gate is None:
        return ""
    return f"{gate.prompts} held-out prompts on {gate.profile}" + (
        f", against {gate.baseline}" if gate.baseline else ""
    )


def _end(work: Work) -> str:
    fit = work.config.fit
    ends = [(fit.max_steps, "steps"), (fit.epochs, "epochs"), (fit.max_minutes, "minutes")]
    return " or ".join(f"{value:g} {word}" for value, word in ends if value is not None)
