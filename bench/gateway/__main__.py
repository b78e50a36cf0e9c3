"""`python -P -m k25serve.bench.gateway`: our gateway beside its peers, on this machine, in one command."""

import argparse
import os
import signal
import sys
from pathlib import Path

from rich.console import Console

from k25serve.bench.gateway.arms import ARMS
from k25serve.bench.gateway.bars import OURS, ahead, verdicts
from k25serve.bench.gateway.report import show
from k25serve.bench.gateway.rounds import Bench
from k25serve.bench.provenance import Recorder, write

_QUICK = {"chunks": 66, "series": 150, "per_worker": 1, "closed_s": 1.0}
_ABOUT = """\
Starts a paced simulated engine and, one after another, the gateways in rounds of rotated order; measures CPU time per
streamed chunk and per request, added latency, memory, how soon the engine is freed when a client leaves, request fields
lost, and upstream attempts on a 503. Peers come from PyPI into environments of their own under --cache, made with uv on
first use. The gateway has one CPU to itself, engine and client another. Linux only. About 12 minutes in full.
"""


def main() -> None:
    names = [arm.name for arm in ARMS]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "k25serve" / "gateways"
    parser = argparse.ArgumentParser(prog="python -P -m k25serve.bench.gateway", description=_ABOUT)
    parser.add_argument("--out", type=Path, required=True, help="results folder; the file goes to its gateway/")
    parser.add_argument("--peers", default=",".join(names), help="comma-separated, of: %(default)s; direct always runs")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--quick", action="store_true", help="shorter parts, no memory part; to look, not to publish")
    parser.add_argument("--port", type=int, default=31500, help="gateways here, engine 50 above; default %(default)s")
    parser.add_argument("--cache", type=Path, default=cache, help="environments of the peers; default %(default)s")
    given = parser.parse_args()
    chosen = given.peers.split(",")
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"--peers has {', '.join(unknown)}: choose from {', '.join(names)}")
    if given.rounds < 1:
        parser.error(f"--rounds is {given.rounds}: give at least 1")
    # So that a run that is stopped leaves nothing running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(width=200)
    bench = Bench(given.cache, given.port, lambda text: console.print(text, style="dim", markup=False))
    recorder = Recorder("gateway", ["python", "-P", "-m", "k25serve.bench.gateway", *sys.argv[1:]])
    arms = [arm for arm in ARMS if arm.name in chosen]
    rounds = bench.run(arms, given.rounds, _QUICK if given.quick else {}, many=not given.quick)
    show(console, rounds, bench.missing)
    data = {
        "rounds": rounds,
        "missing": bench.missing,
        "load_average_before_each_visit": bench.loads,
        "requirements": {arm.name: arm.requirements for arm in arms if arm.requirements},
        "verdicts": [verdict._asdict() for verdict in verdicts(rounds)] if OURS in rounds else [],
        "peers_ahead": ahead(rounds) if OURS in rounds else [],
    }
    path = write(recorder.finish(data, notes=_ABOUT), given.out)
    console.print(f"written to {path}", markup=False)


if __name__ == "__main__":
    main()
