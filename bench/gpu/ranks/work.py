"""Step `work`: what a step costs by mode and what of it is all-reduce, with and without EAGLE-3, on all ranks.

On GPUs the model is Kimi-K2.5's whole width, 64 heads and 384 experts split over the ranks, few layers, random weights
in bf16. On a CPU it is the packaged one, so only the stage itself is tried.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from k25serve.bench.gpu import speed, traces
from k25serve.bench.gpu.arms import MODEL, Bench, prepare, started
from k25serve.bench.gpu.booted import Booted, patches_in_place
from k25serve.bench.gpu.ranks.engines import serving
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


def run(setting: Setting) -> dict[str, Any]:
    """Rows and traces by arm, one engine after the other."""
    bench = None if setting.on_cpu else _bench(setting)
    cells, load = (CPU_CELLS, traces.TINY) if setting.on_cpu else (CELLS, traces.K25)
    data: dict[str, Any] = {"arms": {}, "traces": {}, "ready_s": {}, "patches": {}, "heads_of_a_rank": setting.heads}
    for arm in ARMS:
        with _engine(setting, bench, arm) as engine:
            data["ready_s"][arm] = round(engine.ready_s, 1)
            data["patches"][arm] = patches_in_place(engine)
            data["arms"][arm] = speed.measure(engine, arm, cells)
            data["traces"][arm] = _traced(setting, engine, arm, load)
    return data


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
    lines = [speed.markdown(data["arms"])]
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
