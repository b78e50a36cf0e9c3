"""`k25serve demo`: what a stranger sees first; and bf16, the default, told honestly against the reference."""

import re
from collections.abc import Iterator

import pytest
import torch
from e2e import parity
from e2e.stack import Served, boot

pytestmark = pytest.mark.engine
# bf16 keeps 8 bits: two orders of one sum move logits of 10 to 20 by up to about 0.1.
TIE = 0.25


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with boot(tmp_path_factory.mktemp("demo"), "demo", ready_line="Up until Ctrl-C") as served:
        yield served


def test_shows_what_it_promises(demo: Served) -> None:
    accept_length = re.search(r"EAGLE-3 accept_length (\d\.\d\d) \(1 \+ \d+ accepted draft tokens", demo.said)
    assert accept_length is not None, demo.said
    assert 1.0 <= float(accept_length[1]) <= 4.0
    assert re.search(r"\d+ tokens, first after \d+\.\d\d s, then \d+ tok/s", demo.said)
    assert f"curl {demo.gateway_url}/v1/chat/completions" in demo.said
    assert f"metrics: {demo.gateway_url}/metrics" in demo.said
    assert "for demos and tests" in demo.said
    print(f"start to first answer {demo.ready_s:.0f} s")


async def test_bf16_diverges_at_near_ties_only(demo: Served) -> None:
    outputs, _ = await parity.engine_outputs(demo.engine_url)
    found = parity.divergences(outputs, torch.bfloat16)
    print(f"bf16 divergences from transformers in bf16: {found}")
    assert all(divergence.top2_gap <= TIE for divergence in found), found
