"""The widened models compute what the packaged ones do, and can be split over eight ranks."""

import json
from pathlib import Path

import pytest
import torch
from reference_drafter.drafter import load_drafter

from k25serve.bench.gpu.ranks.setting import RANKS
from k25serve.bench.gpu.wide_model import write_wide
from k25serve.drafters.check import Options, Verdict, check_drafter
from k25serve.drafters.tiny.load import load_text_model


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_wide(tmp_path_factory.mktemp("wide") / "models")


def test_the_target_is_the_same_function(wide: tuple[Path, Path]) -> None:
    ids = torch.arange(40, 104)[None]
    with torch.no_grad():
        expected, found = (model(ids).logits for model in (load_text_model(), load_text_model(folder=wide[0])))
    assert torch.allclose(found, expected, atol=2e-4)
    assert torch.equal(found.argmax(-1), expected.argmax(-1))


def test_the_drafter_is_the_same_function(wide: tuple[Path, Path]) -> None:
    draw = torch.Generator().manual_seed(0)
    aux, embedding = torch.randn(1, 12, 3 * 256, generator=draw), torch.randn(2048, 256, generator=draw)
    ids = torch.arange(40, 52)[None]
    with torch.no_grad():
        expected, found = (model.unroll(aux, ids, embedding, 3) for model in (load_drafter(), load_drafter(wide[1])))
    for left, right in zip(expected, found, strict=True):
        assert torch.allclose(left, right, atol=1e-4)


@pytest.mark.parametrize("ranks", RANKS)
def test_any_number_of_ranks_divides_them(wide: tuple[Path, Path], ranks: int) -> None:
    target, drafter = wide
    text = json.loads((target / "config.json").read_text())["text_config"]
    assert text["num_attention_heads"] == 64
    for size in ("num_attention_heads", "vocab_size", "moe_intermediate_size", "intermediate_size"):
        assert text[size] % ranks == 0
    assert check_drafter(drafter, target, 4096, Options(tp=ranks)).verdict is not Verdict.REFUSE
