"""What pytest says is found in either of its forms; a run without a passed test is no proof."""

import pytest

from k25serve.bench.gpu.kernels import SUMMARY


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("90 passed, 94 deselected in 25.54s", "90 passed, 94 deselected"),
        ("====== 90 passed, 1 skipped in 3.0s ======", "90 passed, 1 skipped"),
    ],
)
def test_summary(line: str, told: str) -> None:
    found = SUMMARY.search(f"....\n{line}\n")
    assert found is not None
    assert found.group(1) == told


def test_nothing_passed() -> None:
    assert SUMMARY.search("94 deselected in 2.02s\n") is None
