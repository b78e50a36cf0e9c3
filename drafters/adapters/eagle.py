"""EAGLE-3 drafters in any of the three layouts -> SGLang, in the layout that is asked for.

Values and config stay as they are but for what the options ask, and a d2t of target ids, which nothing could serve.
"""

from typing import Any

from k25serve.drafters.adapters.draft import Adapter, Draft, Job
from k25serve.drafters.adapters.steps import (
    cast_floats,
    fit_target,
    lend_lm_head,
    reach_context_if_asked,
    write_aux_layers,
)
from k25serve.drafters.adapters.vocabulary import write_offsets
from k25serve.drafters.check.layout import LLAMA, MLA
from k25serve.drafters.checkpoint import AdaptError

# The same models under the names that other engines and toolchains give them.
ARCHITECTURES = {
    LLAMA: LLAMA,
    "Eagle3LlamaForCausalLM": LLAMA,
    MLA: MLA,
    "Eagle3DeepseekV3ForCausalLM": MLA,
}


def read_config(config: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The config with SGLang's name of the architecture. Raises AdaptError where it is none of EAGLE-3's."""
    names = config.get("architectures")
    found = ARCHITECTURES.get(str(names[0])) if isinstance(names, list) and len(names) == 1 else None
    if found is None:
        raise AdaptError(
            f"architectures is {names!r}, not one of {', '.join(ARCHITECTURES)}; use the adapter of its own format"
        )
    if config.get("norm_before_residual"):
        raise AdaptError(
            "norm_before_residual is true, which SGLang's draft model cannot compute; serve it with vLLM, "
            "or train with norm_before_residual false"
        )
    changes = (f"architecture {names} named {found}",) if names != [found] else ()
    return {**config, "architectures": [found]}, changes


def aux_layers_if_asked(draft: Draft, job: Job) -> Draft:
    """Aux layers rewritten only where the user says something of them."""
    options = job.options
    asked = options.aux_layers or options.accept_default_aux or options.aux_convention != "auto"
    return write_aux_layers(draft, job) if asked else draft


ADAPTER = Adapter(
    name="eagle",
    says="any EAGLE-3 layout (midlayer, layers.0, model.layers.0) to SGLang; --layout chooses",
    read_config=read_config,
    steps=(fit_target, write_offsets, aux_layers_if_asked, reach_context_if_asked, lend_lm_head, cast_floats),
    layout=None,
)
