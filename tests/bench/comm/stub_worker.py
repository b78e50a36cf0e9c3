"""A rank that misbehaves on demand: `stub_worker.py BEHAVIOUR PLAN`. Stands where the real worker does."""

import os
import runpy
import signal
import sys
import time

from k25serve.bench.comm.messages import Teller
from k25serve.bench.comm.report import Plan


def main() -> None:
    behaviour, plan = sys.argv[1], Plan.model_validate_json(sys.argv[2])
    rank, teller = int(os.environ["RANK"]), Teller()
    teller.stage("importing torch")
    if behaviour == "silent rank 1":
        if rank == 1:
            time.sleep(3600)
        sys.argv = [sys.argv[0], sys.argv[2]]
        runpy.run_module("k25serve.bench.comm.worker", run_name="__main__")
        return
    teller.tell(nccl="2.27.5")
    teller.stage(f"all_reduce of {plan.sizes[0]} B")
    if behaviour == "crashes" and rank == 1:
        print("NCCL WARN something broke")
        sys.exit(3)
    hangs = behaviour in ("hangs", "crashes") or (
        behaviour == "hangs unless p2p is off" and os.environ.get("NCCL_P2P_DISABLE") != "1"
    )
    if hangs:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as a rank that spins in a driver call
        if behaviour == "hangs" and rank == 0:
            print("last words")
        sys.stdout.flush()
        while True:
            time.sleep(1)
    for size in plan.sizes:
        us = 20.0 + size / 12_800
        teller.tell(
            sample={
                "operation": "all_reduce",
                "nbytes": size,
                "graph": False,
                "median_us": us,
                "p10_us": us,
                "p90_us": us,
            }
        )
    teller.stage("ended")


if __name__ == "__main__":
    main()
