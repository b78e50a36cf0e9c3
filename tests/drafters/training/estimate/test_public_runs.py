"""The estimate against what was published, and against the arithmetic of the project's own notes."""

import pytest

from k25serve.drafters.training.estimate import Estimate, EstimateOptions, estimate

# TorchSpec's drafter for Kimi-K2.5: 600k samples, 6B tokens, ttt 4, full vocabulary, MLP of 12,288. Told: 1,500
# H200-hours in all (PyTorch blog); 32 H200 for 2 phases of about 14 hours (model card), capturing and fitting together.
TORCHSPEC = EstimateOptions(
    machine="h200-x8",
    samples=600_000,
    prompt_tokens=1500,
    generated_tokens=8500,
    ttt_steps=4,
    draft_vocab_size=163_840,
    draft_intermediate_size=12_288,
    regenerate=False,
)
TOLD_IN_ALL, TOLD_BY_CARD = 1500.0, 32 * 2 * 14.0


def test_torchspec_on_h200() -> None:
    found = estimate(TORCHSPEC)
    gpu_hours = 8 * (found.hours.capture + found.hours.fit)
    assert found.options.tokens == 6_000_000_000
    assert TOLD_BY_CARD / 1.5 < gpu_hours < TOLD_IN_ALL
    assert found.draft.trainable == pytest.approx(2.0e9, rel=0.02)


@pytest.fixture(scope="module")
def box() -> Estimate:
    """100k samples of 2,000 tokens, 1,200 of them generated, ttt 7, on 8x RTX PRO 6000."""
    return estimate(EstimateOptions(ttt_steps=7))


def test_rates_of_the_box(box: Estimate) -> None:
    assert box.rates.prefill == pytest.approx(7000, rel=0.01)
    assert box.rates.decode == pytest.approx(2000, rel=0.05)


def test_hours_of_the_box(box: Estimate) -> None:
    """Answers 120M / 2000 = 16.7 h, capture 200M / 7000 = 7.9 h; fit 14.6 h for 1e9 tokens and 1e9 parameters."""
    answers = box.options.samples * box.options.generated_tokens / box.rates.decode / 3600
    assert answers == pytest.approx(16.7, rel=0.05)
    assert box.hours.regenerate - answers == pytest.approx(80e6 / 7000 / 3600, rel=0.01)
    assert box.hours.capture == pytest.approx(7.9, rel=0.01)
    arithmetic = 14.6 * (box.options.tokens / 1e9) * (box.draft.trainable / 1e9)
    assert box.hours.fit == pytest.approx(arithmetic, rel=0.06)


def test_hidden_states_of_the_box(box: Estimate) -> None:
    assert box.target.hidden_bytes_per_token == 57_344
    assert box.hidden_tb == pytest.approx(11.5, rel=0.01)


def test_weights_leave_no_room(box: Estimate) -> None:
    """595 GB over 8 GPUs are 74 GB of 96."""
    assert box.target.weight_bytes / 1e9 == pytest.approx(595, rel=0.005)
    assert box.room.weights == pytest.approx(74, rel=0.01)
    assert box.target.parameters == pytest.approx(1.026e12, rel=0.01)
    assert box.target.active_parameters == pytest.approx(32e9, rel=0.02)
    assert not box.room.beside
    assert estimate(EstimateOptions(machine="b300-x8")).room.beside


def test_public_recipe_here_takes_weeks() -> None:
    """600k samples, 1.5k generated of 10k: 238 h of capture, 125 h of answers at 2,000 tokens/s."""
    found = estimate(EstimateOptions(samples=600_000, prompt_tokens=8500, generated_tokens=1500, ttt_steps=7))
    assert found.hours.capture == pytest.approx(238, rel=0.01)
    assert found.hours.total > 19 * 24
