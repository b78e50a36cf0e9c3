"""The packaged pair, loaded once, on one thread: idle threads that spin cost more than they give on shared cores."""

from collections.abc import Iterator

import pytest
import torch
from reference_drafter.drafter import Drafter, load_drafter
from transformers import DeepseekV3ForCausalLM, PreTrainedTokenizerFast

from k25serve.drafters.tiny.dataset import Encoder
from k25serve.drafters.tiny.load import load_text_model, load_tokenizer
from k25serve.drafters.tiny.target import use_dense_experts


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return load_tokenizer()


@pytest.fixture(scope="session")
def encoder(tokenizer: PreTrainedTokenizerFast) -> Encoder:
    return Encoder(tokenizer)


@pytest.fixture(scope="session")
def target() -> DeepseekV3ForCausalLM:
    return use_dense_experts(load_text_model())


@pytest.fixture(scope="session")
def drafter() -> Drafter:
    return load_drafter()
