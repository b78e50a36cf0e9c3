"""The header of one safetensors file: 8 bytes of length, JSON, then the tensors' bytes without gaps.

Read by hand, so that neither numpy (which knows no bf16) nor torch is needed. Format: safetensors' README, "Format".
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.errors import CheckpointError
from k25serve.drafters.checkpoint.json_file import object_in

# Bits an element; sub-byte types exist, so not bytes.
BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
FLOATS = frozenset({"F16", "BF16", "F32", "F64"})
HEADER_BYTES_AT_MOST = 100_000_000  # the library's own limit
SHOWN_AT_MOST = 200  # characters of a value in an error


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where a tensor lies: `nbytes` bytes at `offset` of `file`, counted from its start."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry of dimension 0."""
        return self.nbytes // self.shape[0]


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, by name. Raises CheckpointError where the file is not whole or not safetensors."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file (a folder, or a link to nowhere); download it again")
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
            if not 2 <= length <= min(HEADER_BYTES_AT_MOST, size - 8):
                raise CheckpointError(f"{path}: not a safetensors file (its header cannot be read); download it again")
            raw = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); mend its permissions") from None
    header = object_in(raw, f"{path}: header")
    start = 8 + length
    tensors = {name: _tensor(path, start, name, entry) for name, entry in header.items() if name != "__metadata__"}
    needed = max((tensor.offset + tensor.nbytes for tensor in tensors.values()), default=start)
    if needed > size:
        raise CheckpointError(f"{path}: {size} bytes where its header needs {needed}; the download is not complete")
    return tensors


def _tensor(path: Path, start: int, name: str, entry: Any) -> Tensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        if not all(type(number) is int for number in (begin, end, *shape)):
            raise TypeError("shape and data_offsets must be integers")
        bits = BITS[dtype] * math.prod(shape)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: tensor {_shown(name)} has a header entry that cannot be read ({_shown(error)}); download it again"
        ) from None
    if min(begin, *shape, 0) < 0 or bits % 8 or end - begin != bits // 8:
        raise CheckpointError(
            f"{path}: tensor {_shown(name)} of {dtype} {_shown(list(shape))} lies at "
            f"{_shown(begin)}..{_shown(end)}, which is no room for it; "
            "download it again"
        )
    return Tensor(name, dtype, shape, path, start + begin, end - begin)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_AT_MOST else f"{text[:SHOWN_AT_MOST]}..."
