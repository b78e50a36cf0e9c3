"""One rank: `python -m k25serve.bench.comm.worker PLAN`, PLAN being a report.Plan as JSON. Started by `launch`."""

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from k25serve.bench.comm.messages import Teller
from k25serve.bench.comm.report import Operation, Plan

if TYPE_CHECKING:
    import torch

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Measure what the plan says and tell it."""
    # A launcher that is killed takes its ranks along, also one that spins inside a library.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    plan = Plan.model_validate_json(sys.argv[1])
    teller = Teller()
    teller.stage("importing torch")
    import torch
    import torch.distributed as dist

    from k25serve.bench.comm import paths, timing

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu") if plan.backend == "gloo" else torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        nccl: Any = torch.cuda.nccl
        teller.tell(nccl=".".join(str(part) for part in nccl.version()))
    teller.stage(f"joining {world} ranks over {plan.backend}")
    dist.init_process_group(plan.backend, init_method=f"file://{os.environ['COMM_STORE']}", rank=rank, world_size=world)
    teller.stage(f"building {plan.path}")
    path = paths.build(plan.path, device)
    for operation in plan.operations:
        call = path.all_reduce if operation == "all_reduce" else path.all_to_all
        for nbytes in plan.sizes:
            for graph in (False, True) if plan.graphs else (False,):
                data = _tensor(operation, nbytes, rank, world, device)  # a fresh one: timing overwrites it
                if not path.takes(operation, data):
                    continue
                teller.stage(f"{operation} of {nbytes} B{' in a graph' if graph else ''}")
                _check(operation, call(data.clone()), rank, world)
                clock = timing.clock(device, path.capture if graph else None)
                teller.tell(sample=clock.measure(operation, call, data, plan.samples, plan.calls).model_dump())
    teller.stage("leaving")
    dist.destroy_process_group()
    teller.stage("ended")


def _tensor(operation: Operation, nbytes: int, rank: int, world: int, device: "torch.device") -> "torch.Tensor":
    """[rows, columns] of at least `nbytes`: rank + 1 everywhere; for all-to-all, rank * world + receiver."""
    import torch

    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    count = max(world, -(-nbytes // dtype.itemsize // world) * world)
    if operation == "all_reduce":
        return torch.full((1, count), rank + 1, dtype=dtype, device=device)
    receivers = torch.arange(world, device=device, dtype=dtype).repeat_interleave(count // world)
    return (rank * world + receivers).reshape(1, count)


def _check(operation: Operation, result: Any, rank: int, world: int) -> None:
    """Raise where the collective gave a wrong sum or mixed up senders; sums of up to 16 ranks are exact in bf16."""
    import torch

    if operation == "all_reduce":
        wanted = torch.full_like(result, world * (world + 1) // 2)
    else:
        senders = torch.arange(world, device=result.device, dtype=result.dtype) * world + rank
        wanted = senders.repeat_interleave(result.numel() // world).reshape(result.shape)
    if not torch.equal(result, wanted):
        raise RuntimeError(f"{operation} gave wrong values: {result.flatten()[:4].tolist()}...")


if __name__ == "__main__":
    main()
