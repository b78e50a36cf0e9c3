"""The weights that training starts from."""

import torch
from speculators.models.eagle3 import Eagle3DraftModel

from k25serve.drafters.training.fit.options import Init
from k25serve.drafters.training.fit.verifier import Verifier

STD = 0.02  # of random matrices, as in Llama


@torch.no_grad()
def begin_scratch(drafter: Eagle3DraftModel, verifier: Verifier, init: Init) -> None:
    """Random matrices; what `init` names is taken over from the target. Draws from torch's global generator."""
    hidden = verifier.hidden_size
    for name, weight in sorted(drafter.named_parameters()):
        if name.startswith(("fc.", "layers.")) and weight.dim() == 2:
            torch.nn.init.normal_(weight, std=STD)
        elif weight.dim() == 1 and not name.startswith("verifier_"):
            weight.fill_(1.0)
    if init.head == "random":
        torch.nn.init.normal_(drafter.lm_head.weight, std=STD)
    if init.norm == "target":
        drafter.norm.weight.copy_(verifier.norm)
    if init.fc == "last":
        drafter.fc.weight[:, :-hidden].zero_()
        drafter.fc.weight[:, -hidden:].copy_(torch.eye(hidden))
