"""SpecForge -> SGLang: the same names, but aux layers and d2t's map written down, and `norm_output` put right.

SpecForge 0.2.0 (modeling/draft/llama3_eagle.py): norm_output says whether the head sees the normed state (default
true), and the next draft step always gets the state before the norm. SGLang always norms before the head, and its
norm_output says whether the next step gets the normed state (default false). So SpecForge's true is SGLang's false.
"""

from typing import Any

from k25serve.drafters.adapters import eagle
from k25serve.drafters.adapters.draft import Adapter, Draft, Job
from k25serve.drafters.adapters.steps import (
    cast_floats,
    fit_target,
    lend_lm_head,
    mirror_rope,
    reach_context_if_asked,
    write_aux_layers,
    write_head_dim,
)
from k25serve.drafters.adapters.vocabulary import write_draft_vocab_size, write_offsets
from k25serve.drafters.checkpoint import AdaptError


def read_config(config: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The config in SGLang's meaning. Raises AdaptError where it asks for what SGLang cannot compute."""
    if config.get("norm_output") is False:
        raise AdaptError(
            "norm_output is false: SpecForge's head then sees the state before the norm, which SGLang cannot compute; "
            "train with norm_output true"
        )
    read, changes = eagle.read_config(config)
    if "norm_output" in config:
        read, changes = {**read, "norm_output": False}, (*changes, "norm_output true (SpecForge) is false in SGLang")
    return read, changes


def require_map(draft: Draft, job: Job) -> Draft:
    """d2t and t2d are there: SpecForge keeps them even where the vocabulary is whole."""
    missing = [name for name in ("d2t", "t2d") if name not in draft.tensors]
    if missing:
        raise AdaptError(
            f"tensor {missing[0]!r} is missing; export again with specforge export and the run's vocabulary mapping"
        )
    return draft


ADAPTER = Adapter(
    name="specforge",
    says="SpecForge's export to SGLang: aux layers explicit, norm_output in SGLang's meaning",
    read_config=read_config,
    steps=(
        require_map,
        fit_target,
        write_head_dim,
        write_draft_vocab_size,
        write_offsets,
        write_aux_layers,
        reach_context_if_asked,
        mirror_rope,
        lend_lm_head,
        cast_floats,
    ),
)
