"""The target's text model, found through whatever wrapper it sits in."""

from functools import cached_property
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError
from k25serve.drafters.checkpoint.folder import Checkpoint
from k25serve.drafters.checkpoint.header import Tensor
from k25serve.drafters.checkpoint.near_miss import did_you_mean

# What stands before the text model's own names: Kimi-K2.5's wrapper, transformers 5's order of the same, a bare model.
PREFIXES = ("language_model.model.", "model.language_model.", "model.", "")
HEAD_PREFIXES = ("language_model.", "", "model.", "model.language_model.")
EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"


class Target:
    """A target checkpoint. Only config.json, the index and the headers that are asked for are read."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = Checkpoint(folder)

    @property
    def folder(self) -> Path:
        return self.checkpoint.folder

    @property
    def config(self) -> dict[str, Any]:
        return self.checkpoint.config

    @cached_property
    def text_config(self) -> dict[str, Any]:
        """The text model's config: `text_config` of a multimodal wrapper, else the config itself."""
        text = self.config.get("text_config")
        return text if isinstance(text, dict) else self.config

    @property
    def architecture(self) -> str:
        """The first of `architectures`, empty where there is none."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    @property
    def quantization(self) -> dict[str, Any] | None:
        """`quantization_config`, wherever the wrapper keeps it."""
        for config in (self.config, self.text_config):
            found = config.get("quantization_config")
            if isinstance(found, dict):
                return found
        return None

    def size(self, key: str) -> int:
        """A positive integer of the text config. Raises CheckpointError where there is none."""
        value = self.text_config.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CheckpointError(
                f"{self.folder}/config.json: {key} is {value!r}, a positive integer belongs there; "
                "point --target at the target's own folder"
            )
        return value

    @cached_property
    def embedding(self) -> Tensor:
        """The token embedding [vocab, H]. Raises CheckpointError with near names where it is missing."""
        return self._find(tuple(prefix + EMBEDDING for prefix in PREFIXES))

    @cached_property
    def head(self) -> Tensor:
        """The output head [vocab, H]: its own, or the embedding where the config says that they are tied."""
        names = tuple(prefix + HEAD for prefix in HEAD_PREFIXES)
        if self.checkpoint.first_of(names) is None and self.tied:
            return self.embedding
        return self._find(names)

    @property
    def tied(self) -> bool:
        """Whether head and embedding are one tensor. The wrapper's word counts where the text config has none."""
        return bool(self.text_config.get("tie_word_embeddings", self.config.get("tie_word_embeddings", False)))

    def _find(self, names: tuple[str, ...]) -> Tensor:
        found = self.checkpoint.first_of(names)
        if found is None:
            raise CheckpointError(
                f"{self.folder}: has none of {', '.join(names)}{did_you_mean(names[0], self.checkpoint.shards)}; "
                "point --target at the whole target, with every shard of its index"
            )
        return found
