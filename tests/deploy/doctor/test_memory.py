"""GPU memory against the model's size, by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from k25serve.deploy.doctor.checks.memory import judge, kv_bytes_per_token, text_config
from k25serve.server.config import Profile, load_profile
from k25serve.server.engine.gpu_memory import Gpu
from k25serve.server.errors import PreflightError

GIB = 2**30
K25 = {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
MODELS = {"K25_TARGET": "/t", "K25_DRAFTER": "/d"}
WEIGHTS, DRAFTER = 547 * 10**9, 2 * 10**9


def profile(*overrides: str) -> Profile:
    return load_profile("k25-int4-sm120x8", overrides, MODELS, need_models=False)


def gpu(free: float, total: float = 95.6) -> Gpu:
    return Gpu(0, "GPU-x", int(free * GIB), int(total * GIB))


def test_a_latent_cache_is_whole_on_every_rank() -> None:
    assert kv_bytes_per_token(profile(), K25) == 61 * 576 * 2
    assert kv_bytes_per_token(profile("engine.kv_cache_dtype=fp8_e4m3"), K25) == 61 * 576


def test_tokens_of_each_request_are_told_by_concurrency() -> None:
    found = judge(profile(), WEIGHTS, DRAFTER, K25, gpu(95))
    # 0.9 x 95.6 GiB, less (547 + 2) / 8 GB of weights, over 70,272 bytes a token.
    tokens = (int(int(95.6 * GIB) * 0.9) - (WEIGHTS + DRAFTER) // 8) // 70_272
    assert found.verdict == "ok"
    assert f"KV cache {tokens:,} tokens" in found.evidence
    assert f"{tokens // 128:,} at 128" in found.evidence


def test_weights_that_do_not_fit_are_refused() -> None:
    found = judge(profile(), WEIGHTS, DRAFTER, K25, gpu(60))
    assert found.verdict == "fail"
    assert "raise engine.tp" in found.remedy


def test_a_context_that_does_not_fit_is_refused() -> None:
    found = judge(profile("engine.mem_fraction_static=0.7"), WEIGHTS, DRAFTER, K25, gpu(95))
    assert found.verdict == "fail"
    assert "context_length is 262,144" in found.evidence


def test_another_kind_of_model_gets_no_token_count() -> None:
    assert "tokens" not in judge(profile(), WEIGHTS, 0, {"num_hidden_layers": 61}, gpu(95)).evidence


@pytest.mark.parametrize("limit", [4096])
def test_a_limit_of_the_profile_bounds_the_cache(limit: int) -> None:
    found = judge(profile(f"engine.max_total_tokens={limit}"), WEIGHTS, DRAFTER, K25, gpu(95))
    assert f"KV cache {limit:,} tokens" in found.evidence


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([1], "holds no JSON object"),
        ({"text_config": None}, "text_config is None"),
        ({"text_config": [["a", "b"]]}, "text_config is"),
        (K25 | {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        (K25 | {"kv_lora_rank": "512"}, "kv_lora_rank is '512'"),
        (K25 | {"kv_lora_rank": float("nan")}, "kv_lora_rank is nan"),
    ],
)
def test_a_config_that_cannot_be_is_told(tmp_path: Path, config: Any, said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(PreflightError, match=said):
        text_config(tmp_path)


def test_what_is_null_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(K25 | {"kv_lora_rank": None}))
    assert "kv_lora_rank" not in text_config(tmp_path)
