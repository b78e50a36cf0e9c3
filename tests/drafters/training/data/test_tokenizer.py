"""Tokenizers as folders ship them: Kimi's own kind needs the folder's Python files."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers.dynamic_module_utils

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.encode import Encoder
from k25serve.drafters.training.data.options import Thinking
from k25serve.drafters.training.data.tokenizer import load_tokenizer, tokenizer_hashes, turn_ends

MARKS = ("<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<think>", "</think>")
# Bytes as tokens, through tiktoken, behind transformers' slow interface; tools are handed to the template as text.
CODE = f"""
import tiktoken
from transformers import PreTrainedTokenizer


class BytesTokenizer(PreTrainedTokenizer):
    def __init__(self, **kwargs):
        ranks = {{bytes([i]): i for i in range(256)}}
        marks = {{mark: 256 + i for i, mark in enumerate({MARKS!r})}}
        self.model = tiktoken.Encoding("b", pat_str=".", mergeable_ranks=ranks, special_tokens=marks)
        self.names = [chr(i) for i in range(256)] + list(marks)
        super().__init__(**kwargs)

    @property
    def vocab_size(self):
        return len(self.names)

    def get_vocab(self):
        return {{name: i for i, name in enumerate(self.names)}}

    def _tokenize(self, text, **kwargs):
        return [self.names[i] for i in self.model.encode(text, allowed_special="all")]

    def _convert_token_to_id(self, token):
        return self.names.index(token)

    def _convert_id_to_token(self, index):
        return self.names[index]

    def apply_chat_template(self, messages, tools=None, **kwargs):
        return super().apply_chat_template(messages, tools=tools, tools_as_text=str(tools), **kwargs)
"""


@pytest.fixture
def kimi_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "tokenization_bytes.py").write_text(CODE)
    config = {
        "tokenizer_class": "BytesTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_bytes.BytesTokenizer", None]},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": "kimi_k25", "text_config": {}, "eos_token_id": 256}))
    (folder / "chat_template.jinja").write_bytes((TARGET / "chat_template.jinja").read_bytes())
    return folder


def test_a_folder_with_its_own_tokenizer(kimi_like: Path) -> None:
    with pytest.raises(TrainingError, match="if you trust that folder's Python files, pass --trust-remote-code"):
        load_tokenizer(kimi_like, trust_remote_code=False)
    tokenizer = load_tokenizer(kimi_like, trust_remote_code=True)
    assert turn_ends(kimi_like, tokenizer) == {256}
    encoder = Encoder(tokenizer, turn_ends(kimi_like, tokenizer), Thinking.AS_IS, 4096)
    messages = (
        {"role": "user", "content": " Hi "},
        {"role": "assistant", "content": " 7", "reasoning_content": "I add. "},
        {"role": "user", "content": "é"},
        {"role": "assistant", "content": "Hello!"},
    )
    ((row,),) = (one.rows for one in encoder.encode([Conversation(messages)]))
    written = [token for token, mask in zip(row.input_ids, row.loss_mask, strict=True) if mask]
    assert tokenizer.model.decode(written) == "I add. </think> 7<|im_end|>Hello!<|im_end|>"
    text = tokenizer.apply_chat_template(list(messages), tokenize=False)
    assert row.input_ids == tokenizer.model.encode(text, allowed_special="all")


def test_folders_that_are_no_target(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no such folder"):
        load_tokenizer(tmp_path / "none", trust_remote_code=False)
    with pytest.raises(TrainingError, match="its tokenizer cannot be loaded") as error:
        load_tokenizer(tmp_path, trust_remote_code=False)
    assert "\n" not in str(error.value)


def test_no_chat_template(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        (tmp_path / name).write_bytes((TARGET / name).read_bytes())
    with pytest.raises(TrainingError, match="has no chat template"):
        load_tokenizer(tmp_path, trust_remote_code=False)


def test_hashes_tell_templates_apart(tokenizer: Any) -> None:
    one = tokenizer_hashes(TARGET, tokenizer)
    assert {len(value) for value in one.values()} == {64}
    assert one == tokenizer_hashes(TARGET, tokenizer)
