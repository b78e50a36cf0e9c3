"""The kernels in Triton's interpreter. Run by test_interpreter.py in a process of its own (TRITON_INTERPRET=1).

The interpreter of Triton 3.6 to 3.8 (runtime/interpreter.py) multiplies bit patterns of bf16 numbers in `create_dot`,
and truncates where a cast to bf16 or fp8 should round to nearest even. Hardware does neither: both are repaired here.
"""

import numpy
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

# A type's torch dtype, and the integers that torch and numpy see its bits as.
NUMBERS = {
    tl.bfloat16: (torch.bfloat16, torch.int16, numpy.uint16, numpy.int16),
    tl.float16: (torch.float16, torch.int16, numpy.uint16, numpy.int16),
    tl.float32: (torch.float32, torch.int32, numpy.uint32, numpy.int32),
    tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8, numpy.uint8, numpy.uint8),
}


def convert(data, source, target, _rounding):
    """Numbers of one type, as bit patterns, in another type: rounded to nearest even."""
    from_type, _, from_bits, from_ints = NUMBERS[source]
    to_type, to_torch, to_bits, _ = NUMBERS[target]
    raw = numpy.ascontiguousarray(data).view(from_bits).view(from_ints)
    numbers = torch.from_numpy(raw.copy()).view(from_type).to(to_type)
    return numbers.view(to_torch).numpy().view(to_bits).reshape(data.shape)


@pytest.fixture(autouse=True)
def repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    create_dot = interpreter.InterpreterBuilder.create_dot

    def widen(handle):
        if handle.dtype.scalar not in (tl.bfloat16, tl.float8e4nv):
            return handle
        wide = convert(handle.data, handle.dtype.scalar, tl.float32, None).view(numpy.float32)
        return interpreter.TensorHandle(wide, tl.float32)

    def dot(self, a, b, d, *rest):
        return create_dot(self, widen(a), widen(b), d, *rest)

    monkeypatch.setattr(interpreter, "_convert_float", convert)
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", dot)


# numpy warns of what the kernels mean: a row that sees nothing in its split has the logarithm of 0.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
BOUND = {"bf16": 2e-3, "fp8": 2e-3, "fp8_dot": 8e-2}


@pytest.mark.parametrize("kind", ["bf16", "fp8", "fp8_dot"])
@pytest.mark.parametrize("n_splits", [1, 7])
def test_one_split_and_several(make_case, kind: str, n_splits: int) -> None:
    case = make_case([0, 1, 15, 16, 17, 33, 131], kind=kind, seed=n_splits)
    assert case.error(case.run(n_splits)) <= BOUND[kind]


# A block of 16 rows holds 2 draft tokens of 8 heads, one of 32 holds 4, and more take two: the edges, and 4 elsewhere.
@pytest.mark.parametrize(
    ("kind", "draft_tokens"),
    [
        *(("bf16", n) for n in (1, 2, 3, 5, 8)),
        *(pytest.param("bf16", n, marks=pytest.mark.full) for n in (4, 6, 7)),
        ("fp8", 3),
        *(pytest.param("fp8", n, marks=pytest.mark.full) for n in (1, 8)),
    ],
)
def test_every_draft_length(make_case, kind: str, draft_tokens: int) -> None:
    case = make_case([0, 31, 66], draft_tokens=draft_tokens, kind=kind, seed=draft_tokens)
    assert case.error(case.run(3)) <= BOUND[kind]


@pytest.mark.parametrize(
    ("heads", "draft_tokens"), [(12, 3), (16, 2), (32, 1), pytest.param(64, 2, marks=pytest.mark.full), (128, 1)]
)
def test_other_head_counts(make_case, heads: int, draft_tokens: int) -> None:
    case = make_case([0, 45], heads=heads, draft_tokens=draft_tokens)
    assert case.error(case.run(2)) <= BOUND["bf16"]


def test_a_longer_prefix(make_case) -> None:
    case = make_case([2047])
    assert case.error(case.run()) <= BOUND["bf16"]


def test_more_splits_than_tokens(make_case) -> None:
    """Most splits are empty, and the drafts alone fill the last one: rows in it see nothing."""
    case = make_case([30, 62], draft_tokens=4)
    assert case.error(case.run(64, override="granule=16,tokens=16")) <= BOUND["bf16"]


@pytest.mark.parametrize("override", ["tokens=16,granule=16", "tokens=32", "granule=64"])
def test_alternates(make_case, override: str) -> None:
    case = make_case([0, 101, 300])
    assert case.error(case.run(3, override)) <= BOUND["bf16"]


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_a_later_draft_token_changes_no_bit(make_case, kind: str) -> None:
    case = make_case([0, 50], kind=kind)
    before = case.run(2).reshape(2, 4, -1)
    for request in range(2):
        after = case.with_other_draft(request, 3).run(2).reshape(2, 4, -1)
        assert torch.equal(before[:, :3], after[:, :3])
        assert torch.equal(before[1 - request], after[1 - request])
        assert not torch.equal(before[request, 3], after[request, 3])


def test_the_same_bits_twice(make_case) -> None:
    case = make_case([77, 130])
    assert torch.equal(case.run(3), case.run(3))
