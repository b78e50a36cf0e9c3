"""Captured states against those of a plain forward: is each layer's its own?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

RELATIVE_ERROR_AT_MOST = 0.05
FAR_AT_MOST = 0.2
"""bf16 keeps 8 bits: an engine that computes in it is off by 1 % at half of the tokens after five layers, by 4 % at
nine in ten. The rest went to another expert than in the reference, where two were nearly alike, and is off by up to
50 %; so a norm over all tokens is those few alone. A neighbouring layer is off by 45 % at half of them, by 29 %
at nine in ten (packaged target, SGLang 0.5.23 on a CPU, bf16, 3,568 tokens)."""


@dataclass(frozen=True)
class LayerMatch:
    """One captured layer over all compared tokens.

    relative_error: |captured - reference| / |reference| of a token, Euclidean norms; half of the tokens are below. far:
    nine in ten are below. cosine: mean over tokens. nearest: the layer whose reference is nearest; nearest_error: how
    near.
    """

    layer: int
    relative_error: float
    far: float
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
        for part, error, most in (
            ("half", self.relative_error, RELATIVE_ERROR_AT_MOST),
            ("one in ten", self.far, FAR_AT_MOST),
        ):
            if not error <= most:
                return (
                    f"layer {self.layer} differs from a plain forward by {error:.4f} of a state's length or more at "
                    f"{part} of the tokens, expected {most} at most"
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
        each = [(mine - other).norm(dim=-1) / other.norm(dim=-1) for other in want]
        errors = [float(error.median()) for error in each]
        nearest = min(range(len(errors)), key=errors.__getitem__)
        far = float(each[layer].quantile(0.9))
        cosine = float(cosine_similarity(mine, want[layer], dim=-1).mean())
        matches.append(LayerMatch(layer, errors[layer], far, cosine, nearest, errors[nearest]))
    return matches
