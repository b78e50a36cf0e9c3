"""What a folder says about its tokens, without building a tokenizer: hash of the vocabulary, special tokens, ends."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError
from k25serve.drafters.checkpoint.json_file import read_object_if_there

TIKTOKEN, FAST, CONFIG, GENERATION = (
    "tiktoken.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)


@dataclass(frozen=True)
class Tokens:
    """`vocabulary` is the SHA-256 of the plain tokens and their ids, `special` the ids of the added ones by text."""

    vocabulary: str
    source: str
    special: dict[str, int]


def read_tokens(folder: Path) -> Tokens | None:
    """The tokenizer's tables: `tiktoken.model` (Kimi's own form) or `tokenizer.json`; None where there is neither.

    Raises CheckpointError where a file is there and cannot be read.
    """
    fast = read_object_if_there(folder / FAST)
    try:
        decoder = read_object_if_there(folder / CONFIG).get("added_tokens_decoder") or {}
        special = {str(token["content"]): int(index) for index, token in decoder.items()}
        special |= {str(token["content"]): int(token["id"]) for token in fast.get("added_tokens") or []}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder}: added tokens of {CONFIG} or {FAST} cannot be read ({error!r}); download both again"
        ) from None
    if (folder / TIKTOKEN).is_file():
        return Tokens(hashlib.sha256((folder / TIKTOKEN).read_bytes()).hexdigest(), TIKTOKEN, special)
    if not fast:
        return None
    model = fast.get("model") or {}
    plain = json.dumps([model.get("vocab"), model.get("merges")], sort_keys=True, ensure_ascii=False)
    return Tokens(hashlib.sha256(plain.encode()).hexdigest(), FAST, special)


def end_tokens(folder: Path, config: dict[str, Any]) -> tuple[int, ...]:
    """Ids that end an answer: `eos_token_id`, a number or a list, of generation_config.json, else of the config."""
    for source in (read_object_if_there(folder / GENERATION), config):
        value = source.get("eos_token_id")
        ids = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
        if ids:
            return tuple(dict.fromkeys(ids))
    return ()
