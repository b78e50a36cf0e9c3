"""The steps of the stage, in order; each leaves its data in the folder, so that a run may go on where one ended."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from k25serve.bench.gpu import kernels
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks import agreement, kept, killed, links, planned, work
from k25serve.bench.gpu.ranks.faults import FAULTS
from k25serve.bench.gpu.ranks.kept import Data
from k25serve.bench.gpu.ranks.setting import Setting


@dataclass(frozen=True)
class Step:
    """`run`: from the setting and the data of steps before, by name. minutes: a first time on GPUs, estimated.

    Data may have `failed`, the parts that were not measured and why, and `seconds`, where parts are of several runs.
    """

    run: Callable[[Setting, dict[str, Data]], Data]
    markdown: Callable[[Data], str]
    minutes: float
    what: str
    on_cpu: bool = True


def _work(setting: Setting, before: dict[str, Data]) -> Data:
    return work.run(setting, before.get("work"), partial(kept.write, setting.how.folder, "work"))


def _plan(setting: Setting, before: dict[str, Data]) -> Data:
    missing = [name for name in ("links", "work") if name not in before]
    if missing:
        raise ProofError(f"step plan needs {' and '.join(missing)}; run them first, in the same --out")
    if lacking := work.lacking(before["work"]):
        raise ProofError(
            f"step plan needs arm {', '.join(lacking)} of step work, which was not measured; "
            "give --steps work,plan and the same --out"
        )
    return planned.run(setting, before["links"], before["work"])


STEPS: dict[str, Step] = {
    "kernels": Step(
        lambda setting, _: kernels.run(setting.how.folder, setting.heads),
        kernels.markdown,
        2,
        "the verify kernel's tests and benchmark at the heads of a rank",
        on_cpu=False,
    ),
    "links": Step(
        lambda setting, _: links.run(setting), links.markdown, 3, "bench comm: all-reduce and all-to-all, with fits"
    ),
    "parity": Step(
        lambda setting, _: agreement.run(setting),
        agreement.markdown,
        7,
        "greedy answers of one rank and all; counts",
    ),
    "work": Step(_work, work.markdown, 14, "step times by mode, traces of all ranks"),
    "plan": Step(_plan, planned.markdown, 0.2, "bench plan with the fit against the measurement"),
    "kills": Step(
        lambda setting, _: killed.run(setting), killed.markdown, 6, "SIGKILL of a rank and of the launcher, next start"
    ),
}


def chosen(listed: str, device: str) -> list[str]:
    """Names of --steps, in their order; `all` for those of the device. Raises ProofError for another name."""
    allowed = [name for name, step in STEPS.items() if step.on_cpu or device != "cpu"]
    names = allowed if listed == "all" else listed.split(",")
    if unknown := [name for name in names if name not in STEPS]:
        raise ProofError(f"--steps has {', '.join(map(repr, unknown))}; choose from {', '.join(STEPS)}, or all")
    if away := [name for name in names if name not in allowed]:
        raise ProofError(f"--steps {', '.join(away)}: needs a GPU; choose from {', '.join(allowed)}")
    return [name for name in STEPS if name in names]


def told(setting: Setting, names: Sequence[str]) -> list[str]:
    """The plan: a line a step, and how long it may take."""
    lines = [f"{name}: {STEPS[name].what}" for name in names]
    minutes = sum(STEPS[name].minutes for name in names)
    head = f"{setting.ranks} ranks on {setting.device} over {setting.backend}, {setting.heads} heads each"
    return [head if setting.on_cpu else f"{head}; about {minutes:.0f} minutes the first time", *lines]


def run(setting: Setting, names: Sequence[str]) -> Data:
    """Data of all steps that have some, now or from before in the same folder, and `failed`."""
    folder, failed = setting.how.folder, []
    for line in told(setting, names):
        print(line, flush=True)
    for name in names:
        started = time.monotonic()
        try:
            data = STEPS[name].run(setting, kept.read(folder, STEPS))
        except FAULTS as error:
            failed.append(f"{name}: {error!r}")
            print(f"{name} failed: {error!r}", flush=True)
            continue
        except KeyboardInterrupt:
            failed.append(f"{name}: interrupted")
            break
        seconds = round(time.monotonic() - started, 1)
        kept.write(folder, name, {"seconds": seconds} | data)
        failed += [f"{name}: {part}: {why}" for part, why in data.get("failed", {}).items()]
        print(f"{name}: {seconds:.0f} s", flush=True)
    done = kept.read(folder, STEPS)
    return {
        "device": setting.device,
        "heads_of_a_rank": setting.heads,
        "steps": done,
        "not_run": [name for name in STEPS if name not in done],
        "failed": failed,
    }


def markdown(data: Data) -> str:
    """The stage's report."""
    lines = [
        f"{data['tp']} ranks on {data['device']}, {data['heads_of_a_rank']} of 64 heads each.",
        *(f"Not run: {name} ({STEPS[name].what})." for name in data["not_run"]),
    ]
    for name, found in data["steps"].items():
        lines += ["", f"## {name}: {STEPS[name].what} ({found['seconds']:.0f} s)", "", STEPS[name].markdown(found)]
    return "\n".join(lines)
