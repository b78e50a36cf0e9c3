"""SGLang's adaptive config: what the plan says, in the form that SGLang itself reads."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from k25serve.bench.plan.acceptance import load_accept
from k25serve.bench.plan.adaptive import BATCH_SIZES, adaptive_config, check_adaptive, check_profile
from k25serve.bench.plan.calibration import load_calibration
from k25serve.bench.plan.model import Planner
from k25serve.server.config import Profile, load_profile
from k25serve.server.errors import UserError

PLANNER = Planner.build(load_calibration("rtx6kpro-k26-v4"))


@pytest.mark.parametrize("accept", ["golden", "rtx6kpro", "1.5@3"])
@pytest.mark.parametrize("context", [0, 16384, 131072])
def test_there_is_no_speculation_at_high_load(accept: str, context: int) -> None:
    config = adaptive_config(PLANNER, load_accept(accept), context)
    sizes = [int(size) for size in config]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert 0 in config[str(sizes[-1])]["candidate_steps"]
    # Never deeper where the load is so high that nothing pays.
    assert all(slot["candidate_steps"] != [0] for slot in list(config.values())[:-1])


def test_slots_hold_the_best_depth_of_their_batch() -> None:
    accept = load_accept("golden")
    config = adaptive_config(PLANNER, accept, 0)
    for size, slot in config.items():
        cells = [PLANNER.cell(int(size), 0, k, accept) for k in range(8)]
        assert max(cells, key=lambda cell: cell.speedup).k in slot["candidate_steps"]


def test_poor_drafts_are_turned_off() -> None:
    config = adaptive_config(PLANNER, load_accept("1.2@3"), 65536)
    assert config[list(config)[-1]]["candidate_steps"] == [0]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no batch size"),
        ({"ema_alpha": 0.2}, "no batch size among its keys ema_alpha"),
        ({"8": {"candidate_steps": [1]}}, "no slot for batch size 1"),
        ({"1": {}}, "candidate_steps None"),
        ({"1": {"candidate_steps": []}}, "is no list of integers"),
        ({"1": {"candidate_steps": [1, -1]}}, "is no list of integers"),
        ({"1": {"candidate_steps": [True]}}, "is no list of integers"),
        ({"1": {"candidate_steps": [3, 1]}}, "are not rising"),
    ],
)
def test_what_sglang_would_refuse_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_adaptive(config)


def deployment(name: str, *changes: str) -> Profile:
    return load_profile(name, changes, need_models=False)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (deployment("k25-int4-sm120x8-ngram"), "speculation.algorithm ngram: only eagle3"),
        (deployment("k25-int4-sm120x8-nospec"), "speculation.algorithm none"),
        (deployment("cpu-tiny", "speculation.topk=4", "speculation.num_draft_tokens=8"), "topk 4: only 1"),
        (deployment("cpu-tiny", "engine.extra_args=['--enable-dp-attention']"), "--enable-dp-attention: not with"),
        (deployment("cpu-tiny", "engine.extra_args=['--enable-pdmux']"), "--enable-pdmux: not with"),
    ],
    ids=["ngram", "none", "topk", "dp attention", "pdmux"],
)
def test_servers_that_do_not_adapt(profile: Profile, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_profile(profile)


def test_the_packaged_eagle_profile_adapts() -> None:
    check_profile(deployment("k25-int4-sm120x8"))


def test_sglang_itself_reads_the_file(tmp_path: Path) -> None:
    """SGLang 0.5.23's own loader and router, on the written file."""
    params = pytest.importorskip("sglang.srt.speculative.adaptive_spec_params")
    config = adaptive_config(PLANNER, load_accept("rtx6kpro"), 16384)
    path = tmp_path / "adaptive.json"
    path.write_bytes(orjson.dumps(config))
    steps = sorted({step for slot in config.values() for step in slot["candidate_steps"]})
    assert params.resolve_candidate_steps_from_config(str(path)) == steps
    router = params.AdaptiveSpeculativeParams(initial_steps=3, cfg_path=str(path))
    for size in BATCH_SIZES:
        slot = max(int(key) for key in config if int(key) <= size)
        assert router.get_steps_for_batch(size) in config[str(slot)]["candidate_steps"]
