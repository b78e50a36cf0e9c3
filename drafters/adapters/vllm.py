"""SGLang -> vLLM, for the other side of an A/B with the same drafter.

vLLM (models/llama_eagle3.py) puts `model.` before every name itself, raises on unknown ones, reads aux layers at the
top of the config as they are, and d2t as offsets.
"""

from k25serve.drafters.adapters.draft import Adapter, Draft, Job
from k25serve.drafters.adapters.eagle import read_config
from k25serve.drafters.adapters.steps import cast_floats, fit_target, mirror_rope, write_head_dim, write_vllm_aux_layers
from k25serve.drafters.adapters.vocabulary import write_draft_vocab_size, write_offsets
from k25serve.drafters.checkpoint import AdaptError

CHECKS = (
    "hidden_size and vocab_size are the target's",
    "lm_head is stored, or the vocabulary is whole",
    "head_dim is the weights'",
    "draft_vocab_size, lm_head and d2t have one size",
    "d2t maps to distinct ids inside the target's vocabulary",
    "aux layers ascend, lie inside the target, and are as many as fc takes",
)
NEW_FLAGS = ("fc_norm", "use_aux_norm", "norm_output", "norm_before_fc")


def require_head(draft: Draft, job: Job) -> Draft:
    """lm_head is stored: vLLM borrows the target's only where the checkpoint has none and the vocabulary is whole."""
    if "lm_head.weight" not in draft.tensors and draft.config.get("draft_vocab_size") not in (
        None,
        draft.size("vocab_size"),
    ):
        raise AdaptError(
            f"tensor 'lm_head.weight' is missing; first run {job.command('eagle --lend-lm-head')}, "
            "then adapt that folder"
        )
    return draft


def tell_new_flags(draft: Draft, job: Job) -> Draft:
    """EAGLE-3.1's flags are kept, with the version that they need."""
    used = [key for key in NEW_FLAGS if draft.config.get(key)]
    if not used:
        return draft
    return draft.noting(f"{', '.join(used)} kept: needs a vLLM with EAGLE-3.1 (vllm-project/vllm#42764)")


ADAPTER = Adapter(
    name="vllm",
    says="SGLang's form to vLLM: layers.0 names, aux layers at the top",
    read_config=read_config,
    steps=(
        fit_target,
        require_head,
        write_head_dim,
        write_draft_vocab_size,
        write_offsets,
        write_vllm_aux_layers,
        mirror_rope,
        tell_new_flags,
        cast_floats,
    ),
    layout="layers",
    checks=CHECKS,
)
