"""Safetensors headers: what the library writes is read, and a damaged file is told in one line."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from drafter_files.files import hole, write_file
from safetensors.numpy import save_file

from k25serve.drafters.checkpoint import CheckpointError, read_bytes, read_header, read_rows


def test_reads_what_the_library_writes(tmp_path: Path) -> None:
    values = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.arange(5, dtype=np.int64)}
    save_file(values, tmp_path / "x.safetensors", {"format": "pt"})
    header = read_header(tmp_path / "x.safetensors")
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in header.items()} == {
        "a": ("F32", (3, 4)),
        "b": ("I64", (5,)),
    }
    assert read_bytes(header["a"]) == values["a"].tobytes()
    assert list(read_rows(header["a"], (2, 0))) == [values["a"][2].tobytes(), values["a"][0].tobytes()]


def test_a_hole_of_a_terabyte_costs_nothing(tmp_path: Path) -> None:
    write_file(tmp_path / "x.safetensors", {"w": hole(1 << 20, 1 << 19)})
    assert read_header(tmp_path / "x.safetensors")["w"].nbytes == 1 << 40


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "not a safetensors file"),
        (struct.pack("<Q", 1 << 40) + b"{}", "not a safetensors file"),
        (struct.pack("<Q", 2) + b"[]", "no JSON object"),
        (struct.pack("<Q", 4) + b"{{{{", "not valid JSON"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "nested too deeply"),
        (struct.pack("<Q", 5002) + b"[" + b"1" * 5000 + b"]", "not valid JSON"),
    ],
    ids=["empty", "length", "list", "text", "deep", "digits"],
)
def test_no_safetensors(tmp_path: Path, raw: bytes, told: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(raw)
    with pytest.raises(CheckpointError, match=told):
        read_header(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        {"dtype": "F32", "shape": ["a"], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1] * 10_000, "data_offsets": [0, 5]},
    ],
    ids=["dtype", "size", "negative", "offsets", "text", "float", "text offsets", "list dtype", "long"],
)
def test_an_entry_that_cannot_be_true(tmp_path: Path, entry: dict[str, object]) -> None:
    text = json.dumps({"w": entry}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    with pytest.raises(CheckpointError, match="tensor 'w'") as caught:
        read_header(tmp_path / "x.safetensors")
    assert len(str(caught.value)) < 1000


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.symlink_to("gone")
    with pytest.raises(CheckpointError, match=r"x\.safetensors: no such file"):
        read_header(path)
    with pytest.raises(CheckpointError, match=r"no such file \(a folder"):
        read_header(tmp_path)
    with pytest.raises(CheckpointError, match=r"cannot be read \(File name too long"):
        read_header(tmp_path / ("a" * 300))


def test_a_download_that_stopped(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_file(path, {"w": hole(1000)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="the download is not complete"):
        read_header(path)
