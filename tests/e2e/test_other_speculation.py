"""A real tree and n-gram: both exact. Full tier, one boot each."""

from pathlib import Path

import pytest
import torch
from e2e import parity
from e2e.stack import boot

pytestmark = [pytest.mark.engine, pytest.mark.full]
FP32 = ("--set", "engine.dtype=float32")
TREE = ("--set", "speculation.topk=2", "--set", "speculation.num_draft_tokens=6")
NGRAM = ("--set", "speculation.algorithm=ngram", "--set", "speculation.num_draft_tokens=4")
CASES = {
    "tree": ("cpu-tiny", *TREE),
    "ngram": ("cpu-tiny-nospec", *NGRAM),
}


@pytest.mark.parametrize("case", CASES)
async def test_greedy_equals_transformers_in_fp32(case: str, tmp_path: Path) -> None:
    with boot(tmp_path, "serve", "-p", *CASES[case], *FP32) as served:
        outputs, infos = await parity.engine_outputs(served.engine_url)
    assert outputs == parity.reference(torch.float32)
    accepted = sum(info["spec_num_correct_drafts"] for info in infos)
    steps = sum(info["spec_verify_ct"] for info in infos)
    print(f"{case}: accept_length {1 + accepted / steps:.2f}")
    assert accepted > 0
