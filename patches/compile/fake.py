"""A tensor that only has a shape: all that a launcher reads where nothing runs. So the gate needs no torch."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class FakeTensor:
    """Shape, dense strides and the name of a dtype ("bfloat16"); its address is a multiple of 16, as torch's are."""

    shape: tuple[int, ...]
    dtype: str

    def stride(self, dim: int | None = None) -> "int | tuple[int, ...]":
        """Strides in elements, as torch's."""
        steps = [1]
        for size in reversed(self.shape[1:]):
            steps.append(steps[-1] * size)
        strides = tuple(reversed(steps))
        return strides if dim is None else strides[dim]

    def data_ptr(self) -> int:
        return 0

    def view(self, *shape: int) -> Self:
        """The same elements in another shape; no -1."""
        return type(self)(shape, self.dtype)
