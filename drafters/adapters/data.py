"""Where a written tensor's bytes come from. Nothing is read before it is written, and then in pieces."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from k25serve.drafters.checkpoint import Tensor, read_chunks

# torch's names, for `Cast`.
TORCH = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


class Data(Protocol):
    """A tensor to be written: dtype in safetensors' spelling, shape, and its bytes."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def nbytes(self) -> int: ...

    def chunks(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Stored:
    """A tensor of a checkpoint, bit by bit."""

    tensor: Tensor

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def nbytes(self) -> int:
        return self.tensor.nbytes

    def chunks(self) -> Iterator[bytes]:
        return read_chunks(self.tensor)


@dataclass(frozen=True)
class Made:
    """A small tensor made here: vocabulary maps."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def nbytes(self) -> int:
        return len(self.data)

    def chunks(self) -> Iterator[bytes]:
        yield self.data


@dataclass(frozen=True)
class Rows:
    """A matrix put together from rows [width] of stored matrices of one dtype and width."""

    sources: tuple[tuple[Tensor, int], ...]

    @property
    def dtype(self) -> str:
        return self.sources[0][0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.sources), *self.sources[0][0].shape[1:])

    @property
    def nbytes(self) -> int:
        return len(self.sources) * self.sources[0][0].row_bytes

    def chunks(self) -> Iterator[bytes]:
        with ExitStack() as stack:
            files = {path: stack.enter_context(path.open("rb")) for path in {t.file for t, _ in self.sources}}
            for tensor, row in self.sources:
                file = files[tensor.file]
                file.seek(tensor.offset + row * tensor.row_bytes)
                yield file.read(tensor.row_bytes)


@dataclass(frozen=True)
class Cast:
    """A float tensor in another float dtype, rounded as torch rounds (to nearest, ties to even)."""

    tensor: Tensor
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def nbytes(self) -> int:
        return self.tensor.elements * {"F32": 4}.get(self.dtype, 2)

    def chunks(self) -> Iterator[bytes]:
        import torch

        stored, wanted = (getattr(torch, TORCH[name]) for name in (self.tensor.dtype, self.dtype))
        for chunk in read_chunks(self.tensor):
            values = torch.frombuffer(bytearray(chunk), dtype=stored).to(wanted)
            yield bytes(values.view(torch.uint8).numpy())


def int64(values: Sequence[int]) -> Made:
    """An I64 list [n]."""
    return Made("I64", (len(values),), b"".join(value.to_bytes(8, "little", signed=True) for value in values))


def booleans(flags: bytes) -> Made:
    """A BOOL list [n] from one byte an entry."""
    return Made("BOOL", (len(flags),), flags)
