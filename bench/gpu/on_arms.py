"""Stages `speed` and `trace`: each arm's engine is started once for both."""

import time
from collections.abc import Sequence
from typing import Any

from k25serve.bench.gpu import speed, traces
from k25serve.bench.gpu.arms import prepare, started
from k25serve.bench.gpu.booted import Booted, ProofError, patches_in_place
from k25serve.bench.gpu.start import Start
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import TraceError

TRIMMED_SECONDS = 0.02
ARM_S = 120.0  # what an arm takes, its start included, with compiled kernels at hand


def run_arms(
    how: Start, ranks: int, arms: Sequence[str], stages: Sequence[str], seconds: float
) -> dict[str, dict[str, Any]]:
    """Data by stage. An arm that fails, or has less than ARM_S left of `seconds`, is told under `failed`."""
    ends = time.monotonic() + seconds
    bench = prepare(how, ranks)
    data: dict[str, dict[str, Any]] = {
        stage: {"arms": {}, "ready_s": {}, "patches": {}, "failed": []} for stage in stages
    }
    for arm in arms:
        if (left := ends - time.monotonic()) < ARM_S:
            for stage in stages:
                data[stage]["failed"].append(f"{arm}: not started with {left:.0f} s left; name it in --arms")
            continue
        try:
            with started(bench, arm) as engine:
                for stage in stages:
                    data[stage]["ready_s"][arm] = round(engine.ready_s, 1)
                    data[stage]["patches"][arm] = patches_in_place(engine)
                if "speed" in stages:
                    data["speed"]["arms"][arm] = speed.measure(engine, arm)
                if "trace" in stages:
                    data["trace"]["arms"][arm] = _traced(how, engine, arm, ranks)
        except (ProofError, TraceError, OSError) as error:
            for stage in stages:
                data[stage]["failed"].append(f"{arm}: {error}")
            print(f"{arm} failed: {error}", flush=True)
    return data


def _traced(how: Start, engine: Booted, arm: str, ranks: int) -> dict[str, Any]:
    folder = how.folder / f"trace-{arm}"
    files = traces.record(engine, folder, ranks)
    kept = how.folder / f"trace-{arm}.trimmed.trace.json.gz"
    events = traces.trim(files[0], kept, TRIMMED_SECONDS)
    report = analyse([folder], title=arm).model_dump(mode="json", exclude={"timeline"})
    return {"report": report, "trimmed": kept.name, "trimmed_events": events}
