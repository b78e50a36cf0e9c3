"""Into how many parts the hidden states are cut."""

import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.run.data_steps import Sizes
from k25serve.drafters.training.run.parts import part_count

SIZES = Sizes(train_rows=100, train_tokens=10_000, held_out_rows=5, held_out_tokens=500)
TOKEN = 4 * 256 * 2


@pytest.mark.parametrize(
    ("budget", "parts"),
    [(None, 1), (10_500 * TOKEN, 1), (10_499 * TOKEN, 2), (5_500 * TOKEN, 2), (3_000 * TOKEN, 4), (600 * TOKEN, 100)],
)
def test_parts(budget: int | None, parts: int) -> None:
    assert part_count(SIZES, 256, budget) == parts


def test_no_room_for_a_single_sample() -> None:
    with pytest.raises(TrainingError, match="held-out states and one sample alone take"):
        part_count(SIZES, 256, 599 * TOKEN)
