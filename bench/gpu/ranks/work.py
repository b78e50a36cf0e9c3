"""Step `work`: what a step costs by mode and what of it is all-reduce, with and without EAGLE-3, on all ranks.

On GPUs the model is Kimi-K2.5's whole width, 64 heads and 384 experts split over the ranks, few layers, random weights
in bf16. On a CPU it is the packaged one, so only the stage itself is tried.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from k25serve.bench.gpu import speed, traces
from k25serve.bench.gpu.arms import MODEL, Bench, prepare, started
from k25serve.bench.gpu.booted import Booted, ProofError, patches_in_place
from k25serve.bench.gpu.ranks.engines import serving
from k25serve.bench.gpu.ranks.faults import FAULTS
from k25serve.bench.gpu.ranks.kept import Data
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.trace.analyse import analyse

ARMS = ("none", "eagle3")
FOLDER = "whole"
EIGHTHS = 8
# Experts are 34 GB in every layer but the first: 68 GB a GPU at two ranks, 42 at four, 21 at eight.
LAYERS = {2: 5, 4: 6, 8: 6}
TRIMMED_STEPS = 3
SHORT = tuple((batch, 128) for batch in (1, 4, 16))  # stands for no context in the plan
CELLS = replace(speed.K25, corners=(*SHORT, *speed.K25.corners), plain=((64, 128), (64, 1024)))
CPU_CELLS = speed.Cells(
    corners=((1, 128), (2, 128), (1, 512)), plain=((4, 128), (8, 128)), tokens=32, vocabulary=traces.TINY.vocabulary
)


def run(setting: Setting, before: Data | None, keep: Callable[[Data], None]) -> Data:
    """Rows and traces by arm, one engine after the other; `keep` gets the data whenever an arm is measured.

    before: what an earlier run left; the arms that it lacks are measured, all where it lacks none. An arm that fails
    is told under `failed`. Raises ProofError where no arm is measured.
    """
    goes_on = before is not None and lacking(before) and before["heads_of_a_rank"] == setting.heads
    data = before if before is not None and goes_on else _empty(setting)
    data["failed"] = {}
    for arm in lacking(data):
        started = time.monotonic()
        try:
            found = _measured(setting, arm)
        except FAULTS as error:
            data["failed"][arm] = repr(error)
            print(f"work, arm {arm} failed: {error!r}", flush=True)
            continue
        for name, value in found.items():
            data[name][arm] = value
        data["seconds"] = round(data["seconds"] + time.monotonic() - started, 1)
        keep(data)
    if not data["arms"]:
        raise ProofError("; ".join(f"{part}: {why}" for part, why in data["failed"].items()))
    return data


def lacking(data: Data) -> list[str]:
    """Arms that were not measured."""
    return [arm for arm in ARMS if arm not in data["arms"]]


def _empty(setting: Setting) -> Data:
    by_arm = {name: dict[str, Any]() for name in ("arms", "traces", "ready_s", "patches")}
    return {**by_arm, "heads_of_a_rank": setting.heads, "seconds": 0.0}


def _measured(setting: Setting, arm: str) -> Data:
    """Of one arm."""
    bench = None if setting.on_cpu else _bench(setting)
    cells, load = (CPU_CELLS, traces.TINY) if setting.on_cpu else (CELLS, traces.K25)
    with _engine(setting, bench, arm) as engine:
        return {
            "ready_s": round(engine.ready_s, 1),
            "patches": patches_in_place(engine),
            "arms": speed.measure(engine, arm, cells),
            "traces": _traced(setting, engine, arm, load),
        }


def _bench(setting: Setting) -> Bench:
    """The made-up model, written once a folder."""
    how = replace(setting.how, folder=setting.how.folder / FOLDER, engine_args=setting.extra_args)
    folder = how.folder / MODEL
    if (folder / "drafter" / "model.safetensors").exists():
        return Bench(how.folder, setting.ranks, folder / "profile.yaml", folder / "drafter", how)
    return prepare(how, setting.ranks, EIGHTHS, LAYERS[setting.ranks])


@contextmanager
def _engine(setting: Setting, bench: Bench | None, arm: str) -> Iterator[Booted]:
    if bench is None:
        with serving(setting, f"work-{arm}", setting.ranks, drafts=arm != "none") as engine:
            yield engine
    else:
        with started(bench, arm, Event()) as engine:
            yield engine


def _traced(setting: Setting, engine: Booted, arm: str, load: traces.Load) -> dict[str, Any]:
    """`bench trace` on all ranks' files, and a few steps of each rank kept."""
    folder = _free(setting.how.folder / f"trace-{arm}")
    files = traces.record(engine, folder, setting.ranks, load)
    kept = []
    for rank, file in enumerate(files):
        target = setting.how.folder / f"trace-{arm}-TP-{rank}.trimmed.trace.json.gz"
        traces.trim(file, target, TRIMMED_STEPS)
        kept.append(target.name)
    report = analyse([folder], title=f"{arm}, {setting.ranks} ranks")
    return {"report": report.model_dump(mode="json", exclude={"timeline"}), "trimmed": kept}


def _free(folder: Path) -> Path:
    """A folder that is not there yet, where an earlier try of the step left one."""
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{folder.name.partition('.')[0]}.{number}")
    return folder


def markdown(data: dict[str, Any]) -> str:
    """Step times, then each rank's share of all-reduce and what the ranks wait for each other."""
    lines = [f"Not measured: arm {arm}.\n" for arm in lacking(data)]
    lines.append(speed.markdown(data["arms"]))
    lines += [
        "| arm, rank | mode | steps | ms a step | all-reduce ms | calls | of kernel time | exposed, of step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arm, found in data["traces"].items():
        for rank in found["report"]["ranks"]:
            for mode in rank["modes"]:
                headline = mode["headline"]
                lines.append(
                    f"| {arm} {rank['rank']} | {mode['mode']} | {mode['steps']} | {mode['span_ms']:.3f} "
                    f"| {mode['all_reduce_ms']:.3f} | {mode['all_reduce_calls']:.0f} "
                    f"| {headline['share_of_kernel_sum']:.1%} | {headline['exposed_share_of_step']:.1%} |"
                )
    lines.append("")
    lines += [f"- {arm}: {_wait(found['report']['wait'])}" for arm, found in data["traces"].items()]
    return "\n".join(lines)


def _wait(wait: dict[str, Any] | None) -> str:
    if wait is None:
        return "the ranks' all-reduces could not be matched"
    skew = wait["skew_us_median"]
    apart = wait["clock"] if skew is None else f"starts {skew:.1f} us apart (median), {wait['skew_us_max']:.1f} (most)"
    return (
        f"{wait['calls_compared']} all-reduces matched on all ranks, {wait['share_of_all_reduce']:.1%} of their time "
        f"is waiting, {wait['latest_rank']} is waited for most; {apart}"
    )
