"""Counts out of every dialect, in one definition."""

from typing import Any

import pytest

from k25serve.drafters.gate.acceptance import Counts, add_up, read_counts
from k25serve.drafters.gate.counters import between, read_counters

SGLANG = {"spec_verify_ct": 4, "spec_num_correct_drafts": 6, "spec_num_proposed_drafts": 12, "spec_accept_length": 9.9}
VLLM = {"num_spec_steps": 4, "num_accepted_draft_tokens": 6, "num_draft_tokens": 12, "mean_acceptance_length": 9.9}


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ({"sglext": {"spec_tokens_details": SGLANG}}, Counts(4, 6, 12)),
        ({"sglext": {"spec_tokens_details": [SGLANG, SGLANG]}}, Counts(8, 12, 24)),
        ({"choices": [{"meta_info": SGLANG}], "sglext": None}, Counts(4, 6, 12)),
        ({"metrics": {"speculative_decoding": VLLM, "ttft": 1}}, Counts(4, 6, 12)),
        ({"metrics": {"speculative_decoding": None}}, None),
        ({"choices": [{"meta_info": {"id": "x"}}]}, None),
        ({"choices": []}, None),
        ({}, None),
    ],
    ids=["sglang", "choices", "0.5.17", "vllm", "vllm off", "sglang off", "empty", "nothing"],
)
def test_dialects(answer: dict[str, Any], counts: Counts | None) -> None:
    assert read_counts(answer) == counts


def test_accept_length_is_one_and_accepted_a_step() -> None:
    # Not the engines' own means, which count other tokens.
    assert Counts(4, 6, 12).accept_length == 2.5
    assert Counts().accept_length is None
    assert add_up([Counts(1, 2, 3), Counts(4, 5, 6)]) == Counts(5, 7, 9)


def test_vllm_counters() -> None:
    page = """# HELP vllm:spec_decode_num_drafts_total Number of drafts.
vllm:spec_decode_num_drafts_total{engine="0",model_name="k"} 40.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="k"} 2.0
vllm:spec_decode_num_drafts_created{engine="0"} 1.7e9
vllm:spec_decode_num_draft_tokens_total{engine="0"} 126.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 1.2e+01
"""
    assert read_counters(page) == Counts(42, 12, 126)
    assert read_counters("sglang:num_running_reqs 1\n") is None
    assert between(Counts(1, 2, 3), Counts(42, 12, 126)) == Counts(41, 10, 123)
