from pathlib import Path

import pytest
from captured import data

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import Meaning
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.shards import Shard, plan_shards

K25 = Meaning((1, 29, 57), 60, 7168)


def test_rows_in_order_the_last_shard_shorter(run_data: Path) -> None:
    shards = plan_shards(run_data, CaptureOptions(rows_per_shard=3))
    assert [(one.split, one.index, one.start, one.stop) for one in shards] == [
        ("train", 0, 0, 3),
        ("train", 1, 3, 6),
        ("train", 2, 6, 8),
        ("held_out", 0, 0, 2),
    ]
    assert [one.tokens for one in shards] == [23, 72, 76, 14]
    assert sum(one.tokens for one in shards[:3]) == sum(data.LENGTHS)


def test_one_split(run_data: Path) -> None:
    assert {one.split for one in plan_shards(run_data, CaptureOptions(splits=("held_out",)))} == {"held_out"}


def test_bytes_of_a_token_at_full_width() -> None:
    """Three aux states and the last one, 7168 wide, bf16; with an id and a mask."""
    assert K25.nbytes(1) - K25.nbytes(0) == 57_344 + 9
    assert Shard("train", 0, 0, 2, 2000).nbytes(K25) == pytest.approx(2000 * 57_353, rel=1e-4)


def test_columns_that_are_missing(tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_dict({"input_ids": [[1]], "loss_mask": [[1]]}).save_to_disk(str(tmp_path / "train"))
    with pytest.raises(TrainingError, match="has no column seq_len, id; prepare the data again"):
        plan_shards(tmp_path, CaptureOptions(splits=("train",)))


def test_a_mask_of_another_length(tmp_path: Path) -> None:
    from datasets import Dataset

    from k25serve.drafters.training.capture.rows import Split

    rows = {"input_ids": [[1, 2]], "loss_mask": [[1]], "seq_len": [2], "id": ["x"]}
    Dataset.from_dict(rows).save_to_disk(str(tmp_path / "train"))
    with pytest.raises(TrainingError, match="data/train row 0: 2 input_ids and a loss_mask of 1"):
        Split(tmp_path, "train")[0]
