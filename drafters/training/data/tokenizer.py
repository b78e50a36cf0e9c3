"""The target folder's own tokenizer and chat template."""

import hashlib
import json
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint import end_tokens, read_tokens
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object, read_object_if_there
from k25serve.drafters.checkpoint.tokens import CONFIG
from k25serve.drafters.vocab.special import TURN_END


def load_tokenizer(target: Path, trust_remote_code: bool) -> Any:
    """Nothing is fetched, and no processor of a multimodal wrapper is needed. Raises TrainingError."""
    from transformers import AutoTokenizer

    if not target.is_dir():
        raise TrainingError(f"--target {target}: no such folder; point at the target's own folder")
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(target), local_files_only=True, trust_remote_code=trust_remote_code
        )
    except (ImportError, KeyError, OSError, TypeError, ValueError) as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        # transformers' own words on this vary, and do not name the option here.
        maps = read_object_if_there(target / CONFIG).get("auto_map")
        own_code = isinstance(maps, dict) and "AutoTokenizer" in maps and not trust_remote_code
        remedy = (
            "if you trust that folder's Python files, pass --trust-remote-code" if own_code else "download it again"
        )
        raise TrainingError(f"--target {target}: its tokenizer cannot be loaded ({line}); {remedy}") from None
    if not tokenizer.chat_template:
        raise TrainingError(f"--target {target}: has no chat template; add its chat_template.jinja")
    return tokenizer


def turn_ends(target: Path, tokenizer: Any) -> frozenset[int]:
    """Ids that end an answer: generation_config.json's (else the config's), the tokenizer's, and `<|im_end|>`."""
    ends = set(end_tokens(target, read_object(target / "config.json")))
    ends |= {tokenizer.eos_token_id} if tokenizer.eos_token_id is not None else set()
    known = tokenizer.get_vocab()
    return frozenset(ends | ({known[TURN_END]} if TURN_END in known else set()))


def tokenizer_hashes(target: Path, tokenizer: Any) -> dict[str, str]:
    """SHA-256 of the vocabulary with its added tokens, and of the chat template."""
    tokens = read_tokens(target)
    vocabulary = [tokens.vocabulary, tokens.special] if tokens else sorted(tokenizer.get_vocab().items())
    return {
        "vocabulary": hashlib.sha256(json.dumps(vocabulary, sort_keys=True).encode()).hexdigest(),
        "chat_template": hashlib.sha256(str(tokenizer.chat_template).encode()).hexdigest(),
    }
