"""What an EAGLE-3 drafter of one layer costs to train. Shapes as in the public drafters for Kimi-K2.5."""

from dataclasses import dataclass

from k25serve.drafters.training.estimate.options import EstimateOptions
from k25serve.drafters.training.estimate.target_facts import BF16, TargetFacts

AUX = 3
# A parameter in training: bf16 weight and gradient, fp32 copy and two moments of AdamW.
STATE_BYTES = 2 + 2 + 4 + 4 + 4
# Numbers of width H and of width I that a decoder layer keeps for its backward pass: norms, q, k, v, attention,
# residuals (of 2 H at the input); gate, up, their product and its input.
KEPT_H, KEPT_I = 20, 4
# Draft logits, their gradient, the target's distribution: fp32 over the draft vocabulary.
KEPT_LOGITS = 3


@dataclass(frozen=True)
class DraftFacts:
    """`trainable`: fc, attention, MLP, head. `frozen`: embedding and the target's head, lent by the target."""

    trainable: int
    frozen: int
    flops_per_token: float
    state_bytes: int
    activation_bytes: int

    @property
    def training_bytes(self) -> int:
        """What one GPU needs, the drafter whole on each (data parallel, one sequence at a time)."""
        return self.state_bytes + self.activation_bytes


def draft_facts(target: TargetFacts, options: EstimateOptions) -> DraftFacts:
    """Heads and MLP as wide as the target's own dense ones, unless the options say otherwise."""
    hidden, vocab = target.hidden_size, min(options.draft_vocab_size, target.vocab_size)
    inner = options.draft_intermediate_size or target.intermediate_size
    width = target.heads * target.head_dim
    attention = 3 * (2 * hidden) * width + width * hidden
    trainable = AUX * hidden * hidden + attention + 3 * hidden * inner + vocab * hidden
    positions = options.max_length * options.ttt_steps
    return DraftFacts(
        trainable=trainable,
        frozen=2 * target.vocab_size * hidden,
        # 2 forward and 4 backward for each parameter and unrolled step; the target's own logits once.
        flops_per_token=6.0 * trainable * options.ttt_steps + 2.0 * hidden * target.vocab_size,
        state_bytes=trainable * STATE_BYTES + 2 * target.vocab_size * hidden * BF16,
        activation_bytes=positions * (KEPT_LOGITS * 4 * vocab + BF16 * (KEPT_H * hidden + KEPT_I * inner)),
    )
