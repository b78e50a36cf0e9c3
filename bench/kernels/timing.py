"""Medians of CUDA-graph replays with a cold L2, and the copy bandwidth they are compared with."""

from collections.abc import Callable


def median_us(launch: Callable[[], None]) -> float:
    """Median time of a graph replay of `launch` in us; the L2 is flushed before each (triton.testing.do_bench)."""
    import torch
    from triton.testing import do_bench

    launch()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return float(do_bench(graph.replay, warmup=10, rep=60, return_mode="median")) * 1e3


def copy_bandwidth() -> float:
    """Bytes a second of a large device-to-device copy, read and written bytes both counted."""
    import torch
    from triton.testing import do_bench

    source = torch.randn(2**30, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    ms = float(do_bench(lambda: target.copy_(source), return_mode="median"))
    return 2 * source.numel() * source.element_size() / (ms * 1e-3)


def launch_floor_us() -> float:
    """Time of a graph of two launches that do next to nothing, in us: what no two-launch kernel can beat."""
    import torch

    tiny = torch.zeros(1, device="cuda")

    def launch() -> None:
        tiny.add_(1.0)
        tiny.add_(1.0)

    return median_us(launch)
