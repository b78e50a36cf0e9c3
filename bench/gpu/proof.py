"""Proof on a GPU, by stages, each with its own result file.

    python -P -m k25serve.bench.gpu.proof --stage parity --out DIR

`kernels` needs torch, triton and the `dev` extra only; `parity` serves the packaged model; `speed` and `trace` make a
model with the geometry of one rank of Kimi-K2.5 at TP=8 (6 layers, random weights, 23 GB a GPU and arm). The engines of
all stages that are named start together, since a start is mostly compiling, and are measured one after the other.

    python -P -m k25serve.bench.gpu.proof --stage tp --tp 2 --out DIR

proves one model over 2, 4 or 8 GPUs of this host, step by step (bench/gpu/ranks); called again with the same DIR and
--steps it goes on. `--profile cpu-tiny` tries the stage itself over gloo.

A machine without a checkout leaves its files as DIR/<stage>.json; in the checkout

    python -P -m k25serve.bench.gpu.proof --finish DIR/parity.json --results bench/results

makes the result file and its report.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from k25serve.bench.gpu import kernels, parity, report
from k25serve.bench.gpu.arms import ARMS, MODEL
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.on_arms import arms, run
from k25serve.bench.gpu.ranks import steps
from k25serve.bench.gpu.ranks.setting import Setting, check_ranks, device_of, forbid_multicast
from k25serve.bench.gpu.start import Start
from k25serve.bench.gpu.together import Together
from k25serve.bench.provenance import Recorder
from k25serve.server.config.shown import shown
from k25serve.server.errors import UserError

STAGES = ("kernels", "parity", "speed", "trace", "tp")
ON_ARMS = ("speed", "trace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run stages, or finish what another machine measured. 1 where a stage did not get to its end."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except UserError as error:
        parser.exit(UserError.exit_code, f"{parser.prog}: error: {error}\n")
    except OSError as error:
        if error.filename is None:
            raise
        parser.exit(
            UserError.exit_code, f"{parser.prog}: error: {error.filename}: {error.strerror}; correct the path\n"
        )


def _run(options: argparse.Namespace) -> int:
    if options.finish:
        for raw in options.finish:
            print(report.finish(raw, options.results, options.notes))
        return 0
    if not options.stage:
        raise ProofError(f"--stage is missing; give one or more of {', '.join(STAGES)}")
    on_arms, names = tuple(stage for stage in ON_ARMS if stage in options.stage), options.arms.split(",")
    if unknown := [name for name in names if name not in ARMS]:
        raise ProofError(f"--arms has {', '.join(map(shown, unknown))}; choose from {', '.join(ARMS)}")
    device = device_of(options.profile, tuple(options.set))
    check_ranks(options.tp, device)
    if "tp" in options.stage and options.tp == 1:
        raise ProofError("--stage tp --tp 1: compares ranks; give --tp 2, 4 or 8")
    steps_named = steps.chosen(options.steps, device)
    if on_arms and (options.out / MODEL).exists():
        raise ProofError(f"--out {options.out}: holds the {MODEL} folder of an earlier run; give another folder")
    try:
        engine_args = tuple(shlex.split(options.engine_args))
    except ValueError as error:
        raise ProofError(f"--engine-args {shown(options.engine_args)}: {error}; close the quotes") from None
    options.out.mkdir(parents=True, exist_ok=True)
    given = (*options.set, *((f"engine.tp={options.tp}",) if options.tp > 1 else ()))
    how = Start(given, engine_args, options.out.resolve())
    failed = []
    if options.tp > 1:
        forbid_multicast()
    if "kernels" in options.stage:
        failed.append(_recorded(("kernels",), lambda: {"kernels": kernels.run(how.folder)}, options))
    if "tp" in options.stage:
        setting = Setting(options.tp, options.profile, device, how)
        failed.append(_recorded(("tp",), lambda: {"tp": steps.run(setting, steps_named)}, options))
    starts = parity.arms(how, options.profile) if "parity" in options.stage else {}
    starts |= arms(how, options.tp, names) if on_arms else {}
    with Together(starts) as engines:
        if "parity" in options.stage:
            failed.append(_recorded(("parity",), lambda: {"parity": parity.run(engines, options.profile)}, options))
        if on_arms:
            failed.append(_recorded(on_arms, lambda: run(engines, how, options.tp, names, on_arms), options))
    return int(any(failed))


def _recorded(
    names: tuple[str, ...], run: Callable[[], dict[str, dict[str, Any]]], options: argparse.Namespace
) -> bool:
    """Run stages and leave their raw results; whether something failed."""
    recorders = {name: Recorder(f"gpu-{name}") for name in names}
    started = time.monotonic()
    try:
        found, failed = run(), ""
    except ProofError as error:
        found, failed = {name: {} for name in names}, str(error)
        print(f"stage {', '.join(names)} failed: {failed}", file=sys.stderr)
    for name, data in found.items():
        failures = [failed] if failed else data.get("failed", [])
        result = recorders[name].finish({"tp": options.tp, **data, "failed": failures})
        (options.out / f"{name}.json").write_text(result.model_dump_json(by_alias=True, indent=1), encoding="utf-8")
        print(f"{name}: {time.monotonic() - started:.0f} s, {json.dumps(failures)}", flush=True)
    return any(failed or data.get("failed") for data in found.values())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m k25serve.bench.gpu.proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--stage", action="append", default=[], choices=STAGES, help="may be repeated")
    parser.add_argument("--out", type=Path, default=Path("proof"), metavar="DIR", help="logs and raw results; ./proof")
    parser.add_argument("--profile", default="gpu-tiny", metavar="NAME|FILE", help="of the parity stage")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of `k25serve serve`")
    parser.add_argument("--engine-args", default="", metavar="TEXT", help="SGLang arguments for every engine")
    parser.add_argument("--tp", type=int, default=1, metavar="N", help="ranks, 1, 2, 4 or 8: a GPU each, or over gloo")
    parser.add_argument("--steps", default="all", metavar="LIST", help=f"of tp: {', '.join(steps.STEPS)}; all")
    parser.add_argument("--arms", default=",".join(ARMS[:4]), metavar="LIST", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--finish", type=Path, nargs="+", metavar="FILE", help="raw results of another machine")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), metavar="DIR", help="bench/results")
    parser.add_argument("--notes", default="", metavar="TEXT", help="goes into the result files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
