"""What the rules look at, read once from both folders. Everything is lazy: a rule that is not reached costs nothing."""

import shlex
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from k25serve.drafters.check.layout import LLAMA, canonical_name
from k25serve.drafters.checkpoint import Checkpoint, Target, Tensor, read_bytes, read_ints, read_tokens
from k25serve.drafters.checkpoint.json_file import read_object_if_there
from k25serve.drafters.registry import Entry
from k25serve.drafters.vocab import Reading, read_d2t

AuxConvention = Literal["auto", "input", "output"]
PROVENANCE = "provenance.json"


@dataclass(frozen=True)
class Options:
    """What the launch states, and what the user knows about the drafter.

    draft_quantization: `--speculative-draft-model-quantization`; None: not stated, SGLang then takes the target's.
    aux_convention: what an aux layer id means to its trainer: the state that enters that layer (input), the one that
        leaves it (output), or what the engine takes it for (auto).
    tp, bandwidth: ranks, and bytes a second that each reads, for the estimate of a draft step's time.
    """

    context_length: int | None = None
    draft_quantization: str | None = "unquant"
    aux_convention: AuxConvention = "auto"
    accept_default_aux: bool = False
    entry: Entry | None = None
    tp: int = 8
    bandwidth: float = 1.6e12


@dataclass(frozen=True)
class Facts:
    """Both folders and the options. Raises CheckpointError where a file that a rule needs cannot be read."""

    drafter: Checkpoint
    target: Target
    options: Options = field(default_factory=Options)

    def adapt_command(self, adapter: str) -> str:
        """A command that a user can run as it stands; `adapter` is its name, with options where it needs any."""
        drafter, target = self.drafter.folder, self.target.folder
        folders = ["--drafter", str(drafter), "--target", str(target), "--out", f"{drafter.resolve().name}-adapted"]
        return f"k25serve drafter adapt {adapter} {shlex.join(folders)}"

    @property
    def config(self) -> dict[str, Any]:
        """The drafter's config.json."""
        return self.drafter.config

    @cached_property
    def architecture(self) -> str:
        """The drafter's only architecture; empty where it names none or several."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and len(names) == 1 else ""

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """Stored names by the canonical name under which SGLang loads them; under "" those that it drops."""
        found: dict[str, list[str]] = {}
        for name in self.drafter.names:
            found.setdefault(canonical_name(self.architecture, name) or "", []).append(name)
        return found

    def find(self, canonical: str) -> Tensor | None:
        """The tensor that SGLang loads as `canonical`."""
        names = self.named.get(canonical)
        return self.drafter.tensor(names[-1]) if names and canonical else None

    @cached_property
    def context_length(self) -> int:
        """What will be served: as asked, else all that the target can."""
        return self.options.context_length or derived_context(self.target.text_config)

    @cached_property
    def draft_vocab_size(self) -> int:
        """The config's; where that is absent lm_head's rows, where it is null the target's vocabulary."""
        head = self.find("lm_head.weight")
        if "draft_vocab_size" not in self.config and head is not None:
            return head.shape[0]
        return int(self.config.get("draft_vocab_size") or self.config["vocab_size"])

    @cached_property
    def target_hidden(self) -> int:
        """Width of the states that the drafter takes: `target_hidden_size`, or its own."""
        return int(self.config.get("target_hidden_size") or self.config["hidden_size"])

    @cached_property
    def aux_states(self) -> int:
        """How many states fc takes, by its weight; 3 where it is missing."""
        fc = self.find("fc.weight")
        wide = fc is not None and len(fc.shape) == 2
        return max(1, fc.shape[1] // self.target_hidden) if fc is not None and wide else 3

    @cached_property
    def head_dim(self) -> int:
        """Of the query projection's weight where it divides, else as the engine resolves it."""
        q, heads = self.find("layers.0.self_attn.q_proj.weight"), self.config["num_attention_heads"]
        if q is not None and q.shape[0] % heads == 0:
            return int(q.shape[0] // heads)
        return self.engine_head_dim

    @property
    def engine_head_dim(self) -> int:
        """`head_dim`, or hidden_size // num_attention_heads where it is absent (transformers' LlamaConfig)."""
        return int(self.config.get("head_dim") or self.config["hidden_size"] // self.config["num_attention_heads"])

    @cached_property
    def hot(self) -> bytes | None:
        """t2d's bytes [vocab], one an id; None where it is not stored as such."""
        tensor = self.find("t2d")
        return read_bytes(tensor) if tensor is not None and tensor.dtype in ("BOOL", "U8") else None

    @cached_property
    def reading(self) -> Reading | None:
        """d2t understood; None where the drafter has none."""
        tensor = self.find("d2t")
        return None if tensor is None else read_d2t(read_ints(tensor), self.target.size("vocab_size"), self.hot)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What an adapter of this project wrote beside the drafter; empty where none did."""
        return read_object_if_there(self.drafter.folder / PROVENANCE)

    @property
    def trained(self) -> dict[str, Any]:
        """The source's own values of what adapters change, from the provenance."""
        found = self.provenance.get("trained")
        return found if isinstance(found, dict) else {}

    @cached_property
    def special(self) -> dict[str, int]:
        """The target's added tokens by text."""
        tokens = read_tokens(self.target.folder)
        return tokens.special if tokens else {}

    @property
    def is_llama(self) -> bool:
        return self.architecture == LLAMA


CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")


def derived_context(config: dict[str, Any]) -> int:
    """The context that SGLang derives from a config (0.5.23, utils/hf_transformers/common.py get_context_length)."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    factor = float(scaling.get("factor", 1))
    if "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3":
        factor = 1
    value = next((config[key] for key in CONTEXT_KEYS if config.get(key) is not None), 2048)
    return int(factor * value)
