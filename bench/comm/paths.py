"""Whose collectives are measured: torch's own (NCCL, gloo), or SGLang's communicators as its TP group builds them.

SGLang's: distributed/parallel_state.py GroupCoordinator.__init__, device_communicators/{pynccl,custom_all_reduce,
pcie_ipc_ar}.py, 0.5.17 to 0.5.23 (PCIe-IPC: 0.5.23). They need two or more GPUs. sglang-nccl has run on two H200s with
0.5.17; sglang-custom failed there for want of a world group, which is made since, and has not run again.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from k25serve.bench.comm.report import Operation


@dataclass(frozen=True)
class Path:
    """Collectives of one implementation. `capture`: the context that a CUDA graph capture needs around it."""

    all_reduce: Callable[[Any], Any]
    all_to_all: Callable[[Any], Any]
    takes: Callable[[Operation, Any], bool]
    capture: Callable[[], AbstractContextManager[Any]]


def build(name: str, device: Any) -> Path:
    """The implementation `name` over the default process group. Collective: every rank calls it."""
    if name == "torch":
        return Path(_torch_all_reduce, _torch_all_to_all, lambda _operation, _data: True, nullcontext)
    import torch.distributed as dist

    host = dist.new_group(backend="gloo")
    return {"sglang-nccl": _pynccl, "sglang-custom": _custom, "sglang-pcie-ipc": _pcie_ipc}[name](host, device)


def _torch_all_reduce(data: Any) -> Any:
    import torch.distributed as dist

    dist.all_reduce(data)
    return data


def _torch_all_to_all(data: Any) -> Any:
    import torch
    import torch.distributed as dist

    received = torch.empty_like(data)
    dist.all_to_all_single(received.view(-1), data.view(-1))
    return received


def _only_all_reduce(data: Any) -> Any:
    raise NotImplementedError("SGLang's communicators are measured for all-reduce only")


def _pynccl(host: Any, device: Any) -> Path:
    from sglang.srt.distributed.device_communicators.pynccl import PyNcclCommunicator

    communicator = PyNcclCommunicator(group=host, device=device)

    def all_reduce(data: Any) -> Any:
        with communicator.change_state(enable=True):
            communicator.all_reduce(data)
        return data

    return Path(all_reduce, _only_all_reduce, lambda operation, _data: operation == "all_reduce", nullcontext)


def join_world(device: Any) -> None:
    """Make SGLang's world group of the default process group: it is asked for rank and barrier about peer access."""
    import torch.distributed as dist
    from sglang.srt.distributed.parallel_state import init_distributed_environment

    init_distributed_environment(
        world_size=dist.get_world_size(),
        rank=dist.get_rank(),
        local_rank=dist.get_rank() if device.index is None else device.index,
        backend=dist.get_backend(),
    )


def _custom(host: Any, device: Any) -> Path:
    from sglang.srt.distributed.device_communicators.custom_all_reduce import dispatch_custom_allreduce

    join_world(device)
    communicator = dispatch_custom_allreduce(group=host, device=device)(group=host, device=device)
    if communicator.disabled:
        raise RuntimeError("SGLang's custom all-reduce turned itself off here; its log above says why")
    return Path(
        communicator.custom_all_reduce,
        _only_all_reduce,
        lambda operation, data: operation == "all_reduce" and bool(communicator.should_custom_ar(data)),
        communicator.capture,
    )


def _pcie_ipc(host: Any, device: Any) -> Path:
    import torch.distributed as dist
    from sglang.srt.distributed.device_communicators.pcie_ipc_ar import PcieIpcCommunicator

    communicator = PcieIpcCommunicator(group=dist.group.WORLD, device=device, cpu_group=host)
    if communicator.disabled:
        raise RuntimeError("SGLang's PCIe-IPC all-reduce is not available here (2, 4 or 8 ranks, FlashInfer with it)")
    return Path(
        communicator.pcie_ipc_all_reduce,
        _only_all_reduce,
        lambda operation, data: operation == "all_reduce" and bool(communicator.should_pcie_ipc_ar(data)),
        nullcontext,
    )
