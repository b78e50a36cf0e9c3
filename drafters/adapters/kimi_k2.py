"""A Kimi-K2 drafter -> Kimi-K2.5: everything explicit that SGLang would guess, and K2.5's special tokens drafted.

Written for AQ-MedAI/Kimi-K2-Instruct-eagle3. What it cannot mend: the drafter never saw K2.5's thinking (registry).
"""

from k25serve.drafters.adapters.draft import Adapter
from k25serve.drafters.adapters.eagle import read_config
from k25serve.drafters.adapters.steps import (
    cast_floats,
    fit_target,
    lend_lm_head,
    reach_target_context,
    write_aux_layers,
    write_head_dim,
)
from k25serve.drafters.adapters.vocabulary import cover_special_tokens, write_draft_vocab_size, write_offsets

ADAPTER = Adapter(
    name="kimi_k2",
    says="a K2 drafter to K2.5: aux layers, context, d2t, head_dim, draft_vocab_size, special tokens",
    read_config=read_config,
    steps=(
        fit_target,
        write_head_dim,
        write_draft_vocab_size,
        write_offsets,
        write_aux_layers,
        reach_target_context,
        lend_lm_head,
        cover_special_tokens,
        cast_floats,
    ),
)
