"""Stages `speed` and `trace`: each arm's engine is started once for both, and measured while the others idle."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from k25serve.bench.gpu import speed, traces
from k25serve.bench.gpu.arms import prepare, started
from k25serve.bench.gpu.booted import Booted, ProofError, patches_in_place
from k25serve.bench.gpu.start import Start
from k25serve.bench.gpu.together import Starts, Together
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import TraceError

TRIMMED_STEPS = 3
TRACED = ("none", "eagle3")


def arms(how: Start, ranks: int, names: Sequence[str]) -> dict[str, Starts]:
    """The engines of the arms on a model that is written now."""
    bench = prepare(how, ranks)
    return {name: partial(started, bench, name) for name in names}


def run(
    engines: Together, how: Start, ranks: int, names: Sequence[str], stages: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Data by stage, once every engine is up. An arm that fails is told under `failed`, and the next one runs."""
    data: dict[str, dict[str, Any]] = {
        stage: {"arms": {}, "ready_s": {}, "patches": {}, "failed": []} for stage in stages
    }
    ready: dict[str, Booted] = {}
    for name in names:
        try:
            ready[name] = engines.get(name)
        except (ProofError, OSError) as error:
            _failed(data, name, error)
    for name, engine in ready.items():
        try:
            for stage in stages:
                data[stage]["ready_s"][name] = round(engine.ready_s, 1)
                data[stage]["patches"][name] = patches_in_place(engine)
            if "speed" in stages:
                data["speed"]["arms"][name] = speed.measure(engine, name)
            if "trace" in stages and name in TRACED:
                data["trace"]["arms"][name] = _traced(how, engine, name, ranks)
            engines.stop(name)
        except (ProofError, TraceError, OSError) as error:
            _failed(data, name, error)
        except KeyboardInterrupt as error:
            # Ctrl-C or a time limit: what was measured before is kept.
            _failed(data, name, error)
            break
    return data


def _failed(data: dict[str, dict[str, Any]], name: str, error: BaseException) -> None:
    for stage in data.values():
        stage["failed"].append(f"{name}: {error!r}")
    print(f"{name} failed: {error!r}", flush=True)


def _traced(how: Start, engine: Booted, arm: str, ranks: int) -> dict[str, Any]:
    folder = how.folder / f"trace-{arm}"
    files = traces.record(engine, folder, ranks)
    kept = how.folder / f"trace-{arm}.trimmed.trace.json.gz"
    events = traces.trim(files[0], kept, TRIMMED_STEPS)
    report = analyse([folder], title=arm).model_dump(mode="json", exclude={"timeline"})
    return {"report": report, "trimmed": kept.name, "trimmed_events": events}
