"""Clocks for a collective: the host's for the CPU, CUDA events for the GPU, with a captured graph or without.

A sample is the mean of some calls back to back. Ranks meet before each sample, so a late one costs its own sample only.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from k25serve.bench.comm.report import Operation, Sample

WARM_UP = 3  # samples that are not kept


class Clock(Protocol):
    """Times one operation at one size."""

    def measure(self, operation: Operation, call: Callable[[Any], Any], data: Any, samples: int, calls: int) -> Sample:
        """Latency of `call(data)`; `data` may be overwritten."""


def clock(device: Any, capture: Callable[[], AbstractContextManager[Any]] | None) -> Clock:
    """The clock for a device; with `capture`, the calls are replayed from a CUDA graph that is captured inside it."""
    if device.type == "cpu":
        return HostClock()
    return GraphClock(capture) if capture is not None else EventClock()


def summary(operation: Operation, data: Any, *, graph: bool, us: list[float]) -> Sample:
    """Median and deciles of the samples."""
    ordered = sorted(us)
    last = len(ordered) - 1
    return Sample(
        operation=operation,
        nbytes=data.numel() * data.element_size(),
        graph=graph,
        median_us=median(ordered),
        p10_us=ordered[round(0.1 * last)],
        p90_us=ordered[round(0.9 * last)],
    )


class HostClock:
    """time.perf_counter around blocking calls."""

    def measure(self, operation: Operation, call: Callable[[Any], Any], data: Any, samples: int, calls: int) -> Sample:
        """Latency on the CPU."""
        import torch.distributed as dist

        us = []
        for index in range(WARM_UP + samples):
            dist.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                call(data)
            if index >= WARM_UP:
                us.append((time.perf_counter() - began) * 1e6 / calls)
            data.zero_()  # sums would grow without end
        return summary(operation, data, graph=False, us=us)


class EventClock:
    """CUDA events around calls that the host launches one by one."""

    def measure(self, operation: Operation, call: Callable[[Any], Any], data: Any, samples: int, calls: int) -> Sample:
        """Latency on the GPU, launches included where they are the slower part."""

        def work() -> None:
            for _ in range(calls):
                call(data)

        return summary(operation, data, graph=False, us=_timed(work, data, samples, calls))


@dataclass(frozen=True)
class GraphClock:
    """CUDA events around the replay of a graph that holds the calls, as an engine decodes."""

    capture: Callable[[], AbstractContextManager[Any]]

    def measure(self, operation: Operation, call: Callable[[Any], Any], data: Any, samples: int, calls: int) -> Sample:
        """Latency on the GPU without launches."""
        import torch

        cuda: Any = torch.cuda
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            call(data)  # what allocates on first use must not do so inside the capture
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph()
        kept = []  # outputs live as long as the graph
        # NCCL's watchdog thread makes CUDA calls of its own, which a global capture would not allow.
        with self.capture(), cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(calls):
                kept.append(call(data))
        us = _timed(graph.replay, data, samples, calls)
        return summary(operation, data, graph=True, us=us)


def _timed(work: Callable[[], None], data: Any, samples: int, calls: int) -> list[float]:
    import torch
    import torch.distributed as dist

    cuda: Any = torch.cuda
    us = []
    for index in range(WARM_UP + samples):
        data.zero_()
        dist.barrier()
        cuda.synchronize()
        first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        first.record()
        work()
        last.record()
        last.synchronize()
        if index >= WARM_UP:
            us.append(first.elapsed_time(last) * 1000 / calls)
    return us
