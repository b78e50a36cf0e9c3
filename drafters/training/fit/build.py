"""speculators' drafter from our settings and the target's tensors."""

from collections.abc import Sequence

import torch
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import LlamaConfig

from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.fit.verifier import Verifier
from k25serve.drafters.training.fit.vocabulary import DraftVocabulary

FLEX, DENSE = "simple_flex_attention", "eager"  # speculators' own names


def draft_config(
    options: FitOptions, verifier: Verifier, draft_vocab_size: int, aux_layers: Sequence[int], attention: str
) -> Eagle3SpeculatorConfig:
    """aux_layers: physical, p leaves layer p. Written as vLLM counts, which is this format's way: the layer entered.

    The target's path is left out: it holds on this machine only, and speculators would look there for a config that it
    does not know.
    """
    layer = LlamaConfig(
        **options.draft_layer.model_dump(exclude={"rope_theta"}),
        rope_parameters={"rope_type": "default", "rope_theta": options.draft_layer.rope_theta},
        hidden_size=verifier.hidden_size,
        vocab_size=verifier.vocab_size,
        num_hidden_layers=1,
        tie_word_embeddings=False,
        pad_token_id=None,
    )
    layer._attn_implementation = attention
    return Eagle3SpeculatorConfig(
        transformer_layer_config=layer,
        draft_vocab_size=draft_vocab_size,
        eagle_aux_hidden_state_layer_ids=[layer + 1 for layer in aux_layers],
        speculators_config=SpeculatorsConfig(
            algorithm="eagle3",
            proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=options.draft_steps)],
            default_proposal_method="greedy",
            verifier=VerifierConfig(name_or_path=None, architectures=[verifier.architecture]),
        ),
    )


def build(config: Eagle3SpeculatorConfig, verifier: Verifier, vocabulary: DraftVocabulary) -> Eagle3DraftModel:
    """The drafter with random weights, on the CPU, fp32; the target's tensors in place and frozen.

    The embedding stays in the dtype it is stored in: it is gathered from, and K2.5's takes 2.3 GB so.
    """
    drafter = Eagle3DraftModel(config)
    if vocabulary.reduced:
        drafter.load_vocab_mappings(vocabulary.t2d, vocabulary.d2t)
    drafter.embed_tokens.weight = torch.nn.Parameter(verifier.embedding, requires_grad=False)
    drafter.verifier_norm.variance_epsilon = verifier.eps
    with torch.no_grad():
        drafter.verifier_lm_head.weight.copy_(verifier.head)
        drafter.verifier_norm.weight.copy_(verifier.norm)
        drafter.lm_head.weight.copy_(verifier.head)
    for frozen in (drafter.embed_tokens, drafter.verifier_lm_head, drafter.verifier_norm):
        frozen.requires_grad_(False)
    return drafter
