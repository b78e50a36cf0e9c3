"""Start-up and per-byte time from a latency curve, and how far off the fit is."""

import pytest

from k25serve.bench.comm.fit import fit, fits, slowest
from k25serve.bench.comm.report import Sample


def sample(nbytes: int, us: float, *, operation: str = "all_reduce", graph: bool = False) -> Sample:
    return Sample.model_validate(
        {"operation": operation, "nbytes": nbytes, "graph": graph, "median_us": us, "p10_us": us, "p90_us": us}
    )


SIZES = [14336 * count for count in (1, 2, 4, 8, 16, 32)]


def test_an_exact_line_comes_back() -> None:
    """PyNCCL over 8 PCIe GPUs, public: 18.8 us + 0.080 us/KiB."""
    found = fit([sample(size, 18.8 + 0.080 * size / 1024) for size in SIZES])
    assert found is not None
    assert found.alpha_us == pytest.approx(18.8)
    assert found.beta_us_per_kib == pytest.approx(0.080)
    assert found.bandwidth_gb_s == pytest.approx(12.8)
    assert found.residual_worst == pytest.approx(0, abs=1e-9)
    assert (found.points, found.smallest, found.largest) == (6, SIZES[0], SIZES[-1])


def test_residual_says_how_far_off() -> None:
    found = fit([sample(1024, 10.0), sample(2048, 30.0), sample(4096, 20.0)])
    assert found is not None
    assert found.residual_worst > found.residual_rms > 0.1


def test_neither_term_is_negative() -> None:
    falling = fit([sample(1024, 30.0), sample(2048, 20.0), sample(4096, 10.0)])
    assert falling is not None
    assert falling.beta_us_per_kib == 0
    assert falling.bandwidth_gb_s is None
    assert 10 < falling.alpha_us < 30
    from_nothing = fit([sample(1024, 1.0), sample(2048, 2.0), sample(4096, 9.0)])
    assert from_nothing is not None
    assert from_nothing.alpha_us == 0


def test_two_sizes_are_no_fit() -> None:
    assert fit([sample(1024, 10.0), sample(2048, 20.0)]) is None
    assert fit([sample(1024, 10.0)] * 5) is None


def test_one_fit_for_each_operation_and_mode() -> None:
    samples = [
        sample(size, 5.0 + size, operation=operation, graph=graph)
        for size in (1, 2, 3)
        for operation in ("all_reduce", "all_to_all")
        for graph in (False, True)
    ]
    assert {(one.operation, one.graph) for one in fits(samples)} == {
        ("all_reduce", False),
        ("all_reduce", True),
        ("all_to_all", False),
        ("all_to_all", True),
    }


def test_the_slowest_rank_counts() -> None:
    assert [one.median_us for one in slowest([sample(1, 5.0), sample(1, 9.0), sample(1, 7.0), sample(2, 1.0)])] == [
        9.0,
        1.0,
    ]
