"""JSON objects of a model folder: what is wrong with one is told in a line."""

from pathlib import Path

import pytest

from k25serve.drafters.checkpoint.errors import CheckpointError
from k25serve.drafters.checkpoint.json_file import read_object


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "holds no JSON object but list"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", "not valid JSON"),
    ],
)
def test_what_is_no_object(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=told):
        read_object(file)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        read_object(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_object(tmp_path)
