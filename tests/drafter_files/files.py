"""Writes safetensors by hand, so that tests share no code with what they test. Tensors may be holes in the file."""

import json
import math
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8}
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Array:
    """A tensor to write; `data` None leaves a hole."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | None = None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * BYTES[self.dtype]


def noise(name: str, *shape: int, dtype: str = "BF16") -> Array:
    """Bytes that depend on the name alone; finite as bf16 and as f32."""
    count = math.prod(shape)
    numbers = random.Random(name)
    one = {
        "BF16": lambda: struct.pack("<f", numbers.uniform(-1, 1))[2:],
        "F32": lambda: struct.pack("<f", numbers.random()),
    }
    return Array(dtype, shape, b"".join(one[dtype]() for _ in range(count)))


def hole(*shape: int, dtype: str = "BF16") -> Array:
    return Array(dtype, shape)


def int64(*values: int) -> Array:
    return Array("I64", (len(values),), struct.pack(f"<{len(values)}q", *values))


def flags(marked: set[int], size: int) -> Array:
    return Array("BOOL", (size,), bytes(token in marked for token in range(size)))


def write_file(path: Path, arrays: Mapping[str, Array]) -> None:
    header, offset = {}, 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": array.dtype,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = file.tell()
        for name, array in arrays.items():
            if array.data is not None:
                file.seek(start + header[name]["data_offsets"][0])
                file.write(array.data)
        file.truncate(start + offset)


def write_folder(folder: Path, config: Mapping[str, Any], arrays: Mapping[str, Array], shards: int = 1) -> Path:
    """config.json, and the tensors in one file or dealt out to `shards` files with an index."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        write_file(folder / "model.safetensors", arrays)
        return folder
    dealt: list[dict[str, Array]] = [{} for _ in range(shards)]
    for place, (name, array) in enumerate(arrays.items()):
        dealt[place % shards][name] = array
    weight_map = {}
    for number, part in enumerate(dealt, 1):
        file = f"model-{number:05}-of-{shards:05}.safetensors"
        write_file(folder / file, part)
        weight_map |= dict.fromkeys(part, file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def read_file(path: Path) -> dict[str, Array]:
    """Everything in one safetensors file."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, start = json.loads(raw[8 : 8 + length]), 8 + length
    return {
        name: Array(
            entry["dtype"],
            tuple(entry["shape"]),
            raw[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]],
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }
