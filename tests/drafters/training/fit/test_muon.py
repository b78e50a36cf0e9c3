"""Muon is torch's, but for the precision of its products."""

import pytest
import torch

from k25serve.drafters.training.fit.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(16, 16), (16, 48), (48, 16)])
def test_singular_values_become_alike(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(matrix))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3


def test_steps_are_torchs() -> None:
    numbers = torch.Generator().manual_seed(0)
    start = torch.randn(24, 16, generator=numbers)
    own, other = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    ours = Muon([own], 0.02, 0.1)
    theirs = torch.optim.Muon([other], 0.02, 0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        gradient = torch.randn(24, 16, generator=numbers)
        own.grad, other.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
    moved = (other - start).detach()
    assert float((own - other).detach().norm() / moved.norm()) < 0.02
