"""The packaged tokenizer: nothing lost, special tokens whole."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from k25serve.drafters.tiny import TARGET, special_tokens
from k25serve.drafters.tiny.load import load_tokenizer

TOKENIZER = load_tokenizer()


@settings(deadline=None, max_examples=200)
@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize("text", ["", " ", "\n\n  \t", "\x00\x7f", "日本 é 🎉", "a  b", "def f(x):\r\n\treturn 1_2"])
def test_awkward_text_survives(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_byte_has_a_token(tokenizer: PreTrainedTokenizerFast) -> None:
    text = bytes(range(256)).decode("latin-1")
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_are_the_last_ids_in_order(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = [tokenizer.encode(token) for token in special_tokens.ALL]
    assert ids == [[i] for i in range(2048 - len(special_tokens.ALL), 2048)]
    assert len(tokenizer) == 2048


def test_parsers_see_markers_but_not_control_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer.encode("<think>a</think>b<|tool_calls_section_begin|><|im_end|>[EOS]")
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>a</think>b<|tool_calls_section_begin|>"


def test_digits_stand_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("1234")) == ["1", "2", "3", "4"]


def test_configs_name_the_same_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    config = json.loads((TARGET / "config.json").read_text())
    generation = json.loads((TARGET / "generation_config.json").read_text())
    end, eos = tokenizer.encode("<|im_end|>[EOS]")
    assert generation["eos_token_id"] == [end, eos]
    assert config["eos_token_id"] == config["text_config"]["eos_token_id"] == eos == tokenizer.eos_token_id
    assert config["pad_token_id"] == generation["pad_token_id"] == tokenizer.pad_token_id
    assert [config["media_placeholder_token_id"]] == tokenizer.encode("<|media_pad|>")
