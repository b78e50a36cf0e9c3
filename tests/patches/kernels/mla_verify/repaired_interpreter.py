"""Triton's interpreter with bf16 and fp8 arithmetic as the hardware has it. For tests, in a process of their own.

As it is (3.6 to 3.8), `runtime/interpreter.py` multiplies the bit patterns of bf16 numbers in `create_dot`, and truncates
where a cast to bf16 or fp8 should round to nearest even.
"""

import numpy
import torch
import triton.language as tl
from triton.runtime import interpreter

NUMBERS = {
    tl.bfloat16: (torch.bfloat16, torch.int16, numpy.uint16),
    tl.float16: (torch.float16, torch.int16, numpy.uint16),
    tl.float32: (torch.float32, torch.int32, numpy.uint32),
    tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8, numpy.uint8),
}
SIGNED = {numpy.uint16: numpy.int16, numpy.uint32: numpy.int32, numpy.uint8: numpy.uint8}


def convert(data, source, target, _rounding):
    """Numbers of one type, given and returned as bit patterns, in the next type: rounded to nearest even."""
    from_type, _, from_bits = NUMBERS[source]
    to_type, to_ints, to_bits = NUMBERS[target]
    raw = numpy.ascontiguousarray(data).view(from_bits).view(SIGNED[from_bits])
    return (
        torch.from_numpy(raw.copy()).view(from_type).to(to_type).view(to_ints).numpy().view(to_bits).reshape(data.shape)
    )


def repair() -> None:
    """Put the repairs in place, for this process."""
    original = interpreter.InterpreterBuilder.create_dot

    def widen(handle):
        if handle.dtype.scalar not in (tl.bfloat16, tl.float8e4nv):
            return handle
        wide = convert(handle.data, handle.dtype.scalar, tl.float32, None).view(numpy.float32)
        return interpreter.TensorHandle(wide, tl.float32)

    def create_dot(self, a, b, d, *rest):
        return original(self, widen(a), widen(b), d, *rest)

    interpreter._convert_float = convert
    interpreter.InterpreterBuilder.create_dot = create_dot
