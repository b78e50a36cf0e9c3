"""Proof on a GPU, by stages, each with its own result file.

    python -P -m k25serve.bench.gpu.proof --stage parity --out DIR

`kernels` needs torch and triton only; `parity` serves the packaged model; `speed` and `trace` make a model with the
geometry of one rank of Kimi-K2.5 at TP=8 (12 layers, random weights, 50 GB a GPU) and share their engines when named
together. A machine without a checkout leaves its files as DIR/<stage>.json; in the checkout

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
from k25serve.bench.gpu.arms import ARMS
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.on_arms import run_arms
from k25serve.bench.gpu.start import Start
from k25serve.bench.provenance import Recorder

STAGES = ("kernels", "parity", "speed", "trace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run stages, or finish what another machine measured. 1 where a stage did not get to its end."""
    options = _parser().parse_args(arguments)
    if options.finish:
        for raw in options.finish:
            print(report.finish(raw, options.results, options.notes))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    given = (*options.set, *((f"engine.tp={options.tp}",) if options.tp > 1 else ()))
    how = Start(given, tuple(shlex.split(options.engine_args)), options.out.resolve())
    stages: list[tuple[tuple[str, ...], Callable[[], dict[str, dict[str, Any]]]]] = []
    if "kernels" in options.stage:
        stages.append((("kernels",), lambda: {"kernels": kernels.run(how.folder)}))
    if "parity" in options.stage:
        stages.append((("parity",), lambda: {"parity": parity.run(how, options.profile)}))
    on_arms = tuple(stage for stage in ("speed", "trace") if stage in options.stage)
    if on_arms:
        stages.append((on_arms, lambda: run_arms(how, options.tp, options.arms.split(","), on_arms, options.seconds)))
    return max([_recorded(names, run, options) for names, run in stages], default=0)


def _recorded(names: tuple[str, ...], run: Callable[[], dict[str, dict[str, Any]]], options: argparse.Namespace) -> int:
    recorders = {name: Recorder(f"gpu-{name}") for name in names}
    started = time.monotonic()
    try:
        found, failed = run(), ""
    except ProofError as error:
        found, failed = {name: {} for name in names}, str(error)
        print(f"stage {', '.join(names)} failed: {failed}", file=sys.stderr)
    for name, data in found.items():
        failures = [failed] if failed else data.get("failed", [])
        result = recorders[name].finish({"tp": options.tp, "failed": failures, **data})
        (options.out / f"{name}.json").write_text(result.model_dump_json(by_alias=True, indent=1), encoding="utf-8")
        print(f"{name}: {time.monotonic() - started:.0f} s, {json.dumps(failures)}", flush=True)
    return int(any(failed or data.get("failed") for data in found.values()))


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
    parser.add_argument("--tp", type=int, default=1, choices=(1, 2, 4, 8), help="GPUs; the model grows with them")
    parser.add_argument("--arms", default=",".join(ARMS[:4]), metavar="LIST", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--seconds", type=float, default=540, help="no arm is started that would end later; 540")
    parser.add_argument("--finish", type=Path, nargs="+", metavar="FILE", help="raw results of another machine")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), metavar="DIR", help="bench/results")
    parser.add_argument("--notes", default="", metavar="TEXT", help="goes into the result files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
