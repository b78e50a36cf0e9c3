"""Captured states against those of a plain forward: is each layer's its own?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

RELATIVE_ERROR_AT_MOST = 0.05
"""bf16 keeps 8 bits, so a rounded copy is off by 0.2 %; an engine that computes in bf16, by 1 to 2 % after five layers.
A neighbouring layer is off by 10 % and more: what a layer adds is what is compared."""


@dataclass(frozen=True)
class LayerMatch:
    """One captured layer over all compared tokens.

    relative_error: |captured - reference| / |reference|, Euclidean norms. cosine: mean over tokens. nearest: the layer
    whose reference is nearest; nearest_error: how near.
    """

    layer: int
    relative_error: float
    cosine: float
    nearest: int
    nearest_error: float

    @property
    def fault(self) -> str | None:
        """What is wrong, with the layer's number; None where nothing is."""
        if self.nearest != self.layer:
            return (
                f"what was captured as layer {self.layer} is what leaves layer {self.nearest} "
                f"(relative error {self.nearest_error:.4f} to that, {self.relative_error:.4f} to its own)"
            )
        if self.relative_error > RELATIVE_ERROR_AT_MOST:
            return (
                f"layer {self.layer} differs from a plain forward by {self.relative_error:.4f} of its length, "
                f"expected {RELATIVE_ERROR_AT_MOST} at most"
            )
        return None


def match_layers(
    layers: Sequence[int], captured: "Sequence[torch.Tensor]", reference: "Sequence[torch.Tensor]"
) -> list[LayerMatch]:
    """Compare samples: captured [n, len(layers), H] each, reference [all layers, n, H] each."""
    import torch
    from torch.nn.functional import cosine_similarity

    got = torch.cat([states.float() for states in captured])  # [tokens, captured layers, H]
    want = torch.cat(list(reference), dim=1)  # [layers, tokens, H]
    matches = []
    for position, layer in enumerate(layers):
        mine = got[:, position]
        errors = [float((mine - other).norm() / other.norm()) for other in want]
        nearest = min(range(len(errors)), key=errors.__getitem__)
        cosine = float(cosine_similarity(mine, want[layer], dim=-1).mean())
        matches.append(LayerMatch(layer, errors[layer], cosine, nearest, errors[nearest]))
    return matches
