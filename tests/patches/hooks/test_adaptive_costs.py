"""The policy inside SGLang's own adaptive parameters; the worker is played."""

import importlib
import json
import os
from types import SimpleNamespace

import pytest

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import adaptive_costs
from k25serve.patches.hooks.adaptive_costs import NAME, AdaptiveCosts
from k25serve.patches.hooks.rank import Rank

SKIP = "SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND"
COSTS = {
    "source": "test",
    "batches": [1, 8],
    "contexts": [0, 10_000],
    "steps": [0, 1, 3],
    # Drafts pay at batch 1 and short contexts only.
    "seconds": [[[0.01, 0.011, 0.012], [0.01, 0.03, 0.05]], [[0.02, 0.06, 0.1], [0.02, 0.06, 0.1]]],
    "draft_extend_seconds": 0.001,
    "accept_chances": [0.8, 0.8, 0.8],
}
SLOTS = {"1": {"candidate_steps": [0, 1, 3]}, "4": {"candidate_steps": [0, 1]}}


@pytest.fixture
def params_class(sglang_on_cpu):
    return importlib.import_module("sglang.srt.speculative.adaptive_spec_params").AdaptiveSpeculativeParams


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv(SKIP, "0")
    monkeypatch.setattr(adaptive_costs, "this_rank", lambda: Rank(0, 0))


def make(params_class, tmp_path, trace=""):
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({**SLOTS, "step_costs": COSTS}))
    options = {"explore_share": 0.015, "hysteresis": 0.005, "trace": trace}
    row = AdaptiveCosts(Context(Here("0.5.23", "cpu", "scheduler"), options))
    params = params_class(initial_steps=3, cfg_path=str(path))
    row.construct(None, params, initial_steps=3, cfg_path=str(path))
    return row, params


def batch(requests, length, extend=False):
    request = SimpleNamespace(origin_input_ids=[0] * (length // 2), output_ids=[0] * (length - length // 2))
    mode = SimpleNamespace(is_extend=lambda: extend)
    return SimpleNamespace(reqs=[request] * requests, forward_mode=mode, is_extend_in_batch=False)


def decode(row, params, requests, length, accept=99):
    """One decode step as SGLang's worker and scheduler take it: returns how many drafts each request had."""

    def forward(worker, given):
        return row.steps(params, len(given.reqs))

    steps = row.forward(forward, "worker", batch(requests, length))
    result = SimpleNamespace(
        speculative_num_draft_tokens=steps + 1, num_correct_drafts_per_req_cpu=[min(accept, steps)] * requests
    )
    assert row.verified([], "processor", result, "batch") is None
    return steps


def test_batch_and_context_decide_at_once(params_class, tmp_path):
    row, params = make(params_class, tmp_path)
    assert decode(row, params, 1, 100) == 3
    assert decode(row, params, 1, 10_000) == 0
    assert decode(row, params, 1, 100) == 3
    assert decode(row, params, 8, 100) == 0


def test_acceptance_decides_too(params_class, tmp_path):
    row, params = make(params_class, tmp_path)
    steps = [(decode(row, params, 1, 100, accept=0), row._choice.probe) for _ in range(2000)]
    assert steps[0] == (3, False)
    assert {taken for taken, probe in steps[-1000:] if not probe} == {0}
    assert any(taken for taken, probe in steps if probe), "it looks again"
    assert row.learned(params, [0], 1) is None, "SGLang's own notion of the arm is not used"


def test_only_steps_of_the_slot(params_class, tmp_path):
    """SGLang has captured graphs for these alone."""
    row, params = make(params_class, tmp_path)
    assert {decode(row, params, 4, 0) for _ in range(200)} <= {0, 1}


def test_without_drafts_the_extension_is_left_out(params_class, tmp_path):
    row, params = make(params_class, tmp_path)
    decode(row, params, 8, 100)
    assert os.environ[SKIP].lower() in ("true", "1")
    decode(row, params, 1, 100)
    assert os.environ[SKIP].lower() in ("false", "0")


def test_prefill_and_empty_batches_decide_nothing(params_class, tmp_path):
    row, params = make(params_class, tmp_path)
    decode(row, params, 1, 100)
    for given in (batch(8, 100, extend=True), batch(0, 0)):
        assert row.forward(lambda worker, seen: seen, "worker", given) is given
        assert row.steps(params, 8) == 3


def test_metric_and_trace(params_class, tmp_path, registry):
    row, params = make(params_class, tmp_path, trace=str(tmp_path / "trace.jsonl"))
    assert row.facts()["source"] == "test"
    taken = [decode(row, params, 1, 100) for _ in range(20)]
    row.idle(lambda scheduler: None, "scheduler")
    values = [registry.get_sample_value(f"{NAME}_sum", {"why": why}) or 0 for why in ("best", "probe")]
    assert sum(values) == sum(taken)
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines[::2]] == taken
    assert lines[0] == {"batch": 1, "context": 100.0, "steps": 3, "extend": True, "probe": False}
    assert lines[1] == {"steps": 3, "accepted": [3]}


def test_a_row_without_effect_stops_the_launch(tmp_path):
    options = {"explore_share": 0.015, "hysteresis": 0.005, "trace": ""}
    row = AdaptiveCosts(Context(Here("0.5.23", "cpu", "scheduler"), options))
    with pytest.raises(ValueError, match="without adaptive speculation, so the row has no effect"):
        row.facts()
    with pytest.raises(ValueError, match="no cost table"):
        row.construct(None, "params", 3)
