"""Raw results of a machine without a checkout become result files here, each with a report beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from k25serve.bench import provenance
from k25serve.bench.gpu import kernels, parity, prediction, speed
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks import steps
from k25serve.server.config.shown import shown

ROWS_OF_ARM: dict[str, Callable[[Any], Any]] = {
    "gpu-speed": lambda found: found,
    "gpu-trace": lambda found: found["report"]["ranks"],
}
UNLIKE = (LookupError, TypeError, ValueError, AttributeError)
"""What a file of another layout ends in."""


def finish(raw: Path, folder: Path, notes: str) -> Path:
    """Write the result file of `raw` and its report (.md) under `folder`; git state is this checkout's.

    Raises ProofError where `raw` is not a raw result or an arm in it has no rows, FileExistsError where it was finished
    before.
    """
    try:
        measured = provenance.read(raw)
        body = REPORTS[measured.kind]
    except (ValidationError, KeyError) as error:
        raise _unlike(raw, error) from error
    here = provenance.Recorder(measured.kind).finish({})
    data = dict(measured.data)
    try:
        _check_rows(raw, measured.kind, data)
    except UNLIKE as error:
        raise _unlike(raw, error) from error
    if measured.kind == "gpu-speed":
        data["predicted"] = _predicted(raw, data)
    changed = {"git": here.git, "dirty": here.dirty, "notes": notes, "data": data}
    result = measured.model_copy(update=changed)
    try:
        page = _page(result, body(data))
    except UNLIKE as error:
        raise _unlike(raw, error) from error
    path = provenance.write(result, folder)
    path.with_suffix(".md").write_text(page, encoding="utf-8")
    return path


def _check_rows(raw: Path, kind: str, data: dict[str, Any]) -> None:
    """An arm that failed is not there, and is told under `failed`: one without rows was lost on the way."""
    read = ROWS_OF_ARM.get(kind)
    empty = [] if read is None else [name for name, found in data["arms"].items() if not read(found)]
    if empty:
        raise ProofError(f"{raw}: arm {', '.join(map(shown, empty))} has no rows; measure it again, or take it out")


def _predicted(raw: Path, data: dict[str, Any]) -> Any:
    try:
        return prediction.as_data(prediction.predict(data["arms"]))
    except UNLIKE as error:
        raise _unlike(raw, error) from error


def _unlike(raw: Path, error: Exception) -> ProofError:
    why = f"{type(error).__name__} {str(error).splitlines()[0]}"
    return ProofError(f"{raw} is not a raw result of a stage ({why}); give a file that --stage left under --out")


def _page(result: provenance.Result, body: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = result.machine
    failed = [f"- FAILED: {line.splitlines()[0]}" for line in result.data.get("failed", [])]
    return "\n".join(
        [
            f"# {result.kind}",
            "",
            f"- `{result.command}`",
            f"- {', '.join(machine.gpus) or 'no GPU'}; {machine.cpu}, {machine.cores} cores; driver {machine.driver}",
            f"- {versions}",
            f"- started {result.started:%Y-%m-%d %H:%M} UTC, {result.seconds:.0f} s; git {result.git[:12]}",
            *([f"- {result.notes}"] if result.notes else []),
            *failed,
            "",
            body,
            "",
        ]
    )


def _speed(data: dict[str, Any]) -> str:
    predicted = prediction.markdown(prediction.predict(data["arms"]))
    return f"{speed.markdown(data['arms'])}\n### EAGLE-3 as `bench plan` predicts it from plain decode\n\n{predicted}"


def _trace(data: dict[str, Any]) -> str:
    lines = ["| arm, rank | mode | steps | ms a step | busy ms | launches | all-reduce share | largest classes (ms) |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for arm, found in data["arms"].items():
        for rank in found["report"]["ranks"]:
            for mode in rank["modes"]:
                classes = sorted(mode["classes"], key=lambda row: -row["summed_ms"])[:4]
                largest = ", ".join(f"{row['name']} {row['summed_ms']:.3f}" for row in classes)
                share = mode["headline"]["share_of_kernel_sum"]
                lines.append(
                    f"| {arm} {rank['rank']} | {mode['mode']} | {mode['steps']} | {mode['span_ms']:.3f} "
                    f"| {mode['busy_ms']:.3f} | {mode['launches']:.0f} | {share:.1%} | {largest} |"
                )
    return "\n".join(lines)


REPORTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "gpu-kernels": kernels.markdown,
    "gpu-parity": parity.markdown,
    "gpu-speed": _speed,
    "gpu-trace": _trace,
    "gpu-tp": steps.markdown,
}
