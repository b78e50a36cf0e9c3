"""One small shape on a CUDA device, end to end."""

from pathlib import Path

import pytest
import torch

from k25serve.bench.kernels.contenders import OURS, contenders
from k25serve.bench.kernels.measure import SOURCES, measure, sources
from k25serve.bench.kernels.shapes import Shape
from k25serve.bench.kernels.table import lines


def test_sources_are_told_by_hash() -> None:
    found = sources()
    assert tuple(found) == SOURCES
    assert {len(value) for value in found.values()} == {64}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run pytest -m gpu on one")
def test_one_shape() -> None:
    raw = measure(contenders(None, ""), "a test", [Shape(2, 1024)])
    assert raw["machine"]["gpus"]
    (row,) = raw["data"]["shapes"]
    for found in row["contenders"].values():
        assert found["error"] <= 2e-3
        assert 5 < found["us"] < 1000
    assert row["roof_us"] < row["contenders"][OURS]["us"]
    assert len(list(lines(raw["data"]))) >= 4


def test_a_folder_without_sglang_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no decode_attention"):
        contenders(tmp_path, "0.5.23")
