"""NCCL with and without CUDA graphs; one GPU is enough to see that the calls are made rightly."""

import pytest

from k25serve.bench.comm import sweep
from k25serve.bench.comm.host import gpu_count
from k25serve.bench.comm.report import Plan

pytestmark = pytest.mark.gpu


def test_every_gpu_takes_part_eager_and_in_graphs() -> None:
    plan = Plan(
        backend="nccl",
        operations=("all_reduce", "all_to_all"),
        sizes=(14_336, 229_376, 1 << 20),
        graphs=True,
        samples=5,
        calls=10,
    )
    run = sweep.measure(plan, max(1, gpu_count()), "default", 120.0, say=lambda _: None)
    assert run.passed, run.ends
    assert run.nccl
    assert len(run.samples) == 2 * 3 * 2
    times = {(one.operation, one.nbytes, one.graph): one.median_us for one in run.samples}
    for operation, nbytes, graph in times:
        if graph:
            assert times[operation, nbytes, True] < times[operation, nbytes, False]
