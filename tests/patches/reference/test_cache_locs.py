from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from k25serve.patches.reference import cache_locs

INTS = (torch.int32, torch.int64)
ROWS, POOL = 7, 40


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Distinct table rows with a range each; ranges may be empty and may start at 0."""
    rows = draw(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=5, unique=True))
    starts = [draw(st.integers(0, POOL)) for _ in rows]
    return [(row, start, draw(st.integers(start, POOL))) for row, start in zip(rows, starts, strict=True)]


def columns(items: list[tuple[int, int, int]], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    row, start, end = zip(*items, strict=True)
    return torch.tensor(row), torch.tensor(start, dtype=dtype), torch.tensor(end, dtype=dtype)


@settings(max_examples=60, deadline=None)
@given(items=spans(), index=st.sampled_from(INTS), source=st.sampled_from(INTS), table=st.sampled_from(INTS))
def test_assign_req_to_token_pool_writes_the_ranges_and_nothing_else(
    items: list[tuple[int, int, int]], index: torch.dtype, source: torch.dtype, table: torch.dtype
) -> None:
    row, start, end = columns(items, index)
    slots = list(range(1000, 1000 + sum(last - first for _, first, last in items)))
    req_to_token = torch.full((ROWS, POOL), -5, dtype=table)
    expected, queue = [[-5] * POOL for _ in range(ROWS)], list(slots)
    for r, first, last in items:
        for position in range(first, last):
            expected[r][position] = queue.pop(0)

    cache_locs.assign_req_to_token_pool(row, req_to_token, start, end, torch.tensor(slots, dtype=source), POOL)

    assert req_to_token.tolist() == expected
    assert req_to_token.dtype == table


@settings(max_examples=60, deadline=None)
@given(items=spans(), index=st.sampled_from(INTS), out=st.sampled_from(INTS))
def test_assign_extend_cache_locs_reads_the_ranges_in_order(
    items: list[tuple[int, int, int]], index: torch.dtype, out: torch.dtype
) -> None:
    row, start, end = columns(items, index)
    req_to_token = torch.arange(ROWS * POOL, dtype=torch.int32).view(ROWS, POOL)
    expected = [r * POOL + position for r, first, last in items for position in range(first, last)]
    got = torch.full((len(expected) + 3,), -7, dtype=out)

    cache_locs.assign_extend_cache_locs(row, req_to_token, start, end, got, POOL)

    assert got.tolist() == [*expected, -7, -7, -7]
    assert got.dtype == out


@pytest.mark.parametrize("topk", [1, 2, 3])
@pytest.mark.parametrize("rows", [[4], [6, 0, 3, 1, 5]])
@pytest.mark.parametrize("out", INTS)
def test_draft_slots_follow_the_prefix_of_each_request(topk: int, rows: list[int], out: torch.dtype) -> None:
    steps = 3
    seq_lens = [0, 11, 1, 8, 29][: len(rows)]
    req_to_token = torch.arange(ROWS * POOL, dtype=torch.int32).view(ROWS, POOL)
    got = torch.zeros(len(rows) * topk * steps, dtype=out)

    cache_locs.assign_draft_cache_locs_contiguous(
        torch.tensor(rows), req_to_token, torch.tensor(seq_lens), got, POOL, topk, steps
    )

    expected = [r * POOL + n + i for r, n in zip(rows, seq_lens, strict=True) for i in range(topk * steps)]
    assert got.tolist() == expected


@pytest.mark.parametrize("function", [cache_locs.assign_extend_cache_locs, cache_locs.assign_req_to_token_pool])
def test_a_range_beyond_the_table_is_refused(function: Callable[..., None]) -> None:
    table = torch.zeros(2, POOL, dtype=torch.int32)
    end = torch.tensor([POOL + 1])
    with pytest.raises(ValueError, match=r"row 1 needs 41 .* holds 40.*--context-length"):
        function(torch.tensor([1]), table, end - 2, end, torch.zeros(2, dtype=torch.int64), POOL)
    assert not table.any()


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("dtype", INTS)
def test_bonus_is_the_last_accepted_token(flat: bool, dtype: torch.dtype) -> None:
    accept_tokens = torch.tensor([[10, 11, 12], [20, 21, 22], [30, 31, 32]], dtype=torch.int32)
    bonus = torch.zeros(3, dtype=dtype)
    cache_locs.fill_bonus_tokens(
        accept_tokens.flatten() if flat else accept_tokens, torch.tensor([3, 1, 2], dtype=torch.int32), bonus, 3
    )
    assert bonus.tolist() == [12, 20, 31]


@settings(max_examples=40, deadline=None)
@given(
    index=st.lists(st.one_of(st.just(-1), st.integers(0, 9)), min_size=1, max_size=12),
    source=st.sampled_from(INTS),
    out=st.sampled_from(INTS),
)
def test_accepted_slots_are_compacted_in_order(index: list[int], source: torch.dtype, out: torch.dtype) -> None:
    slots = torch.arange(100, 110, dtype=source)
    got = torch.full((12,), -3, dtype=out)
    cache_locs.fill_accept_out_cache_loc(torch.tensor(index, dtype=torch.int32), slots, got)
    expected = [100 + i for i in index if i > -1]
    assert got.tolist() == expected + [-3] * (12 - len(expected))


@pytest.mark.parametrize("locs", [([], []), ([3], [8]), ([2, 3, 4], [3, 4, 9])])
def test_kv_rows_move_in_every_buffer_and_overlaps_read_first(locs: tuple[list[int], list[int]]) -> None:
    target, source = locs
    buffers = [
        torch.randn(10, 1, 576),
        torch.randn(10, 3, 7).to(torch.bfloat16),
        torch.randn(10, 5, dtype=torch.float64),
    ]
    expected = [buffer.clone() for buffer in buffers]
    for old, new in zip(buffers, expected, strict=True):
        for t, s in zip(target, source, strict=True):
            new[t] = old[s]

    cache_locs.copy_all_layer_kv_cache(
        torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.uint64),
        torch.tensor([buffer[0].nbytes for buffer in buffers]),
        torch.tensor(target, dtype=torch.int64),
        torch.tensor(source, dtype=torch.int64),
    )

    for got, want in zip(buffers, expected, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("select", [None, [0, 4]])
def test_tokens_rotate_left_inside_each_request(select: list[int] | None) -> None:
    ids = torch.tensor([1, 2, 3, 4, 5, 6], dtype=torch.int64)
    cache_locs.rotate_input_ids(
        ids,
        torch.tensor([0, 3, 3]),
        torch.tensor([3, 0, 3]),
        torch.tensor([[77], [88], [99]]),
        None if select is None else torch.tensor([select[0], 0, select[1]]),
    )
    assert ids.tolist() == ([2, 3, 77, 5, 6, 99] if select is None else [77, 3, 3, 5, 99, 6])
