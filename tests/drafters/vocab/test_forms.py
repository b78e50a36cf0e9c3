"""The two forms of d2t (https://github.com/vllm-project/vllm/pull/18909)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k25serve.drafters.vocab import Form, find_faults, read_d2t, to_offsets, to_t2d

HOT = (0, 3, 5, 8)


def test_offsets_and_target_ids_are_told_apart() -> None:
    hot = to_t2d(HOT, 10)
    offsets = read_d2t([0, 2, 3, 5], 10, hot)
    assert (offsets.form, offsets.hot_ids) == (Form.OFFSET, HOT)
    assert offsets.hot_ids[2] == 5
    absolute = read_d2t([0, 3, 5, 8], 10, hot)
    assert (absolute.form, absolute.hot_ids) == (Form.ABSOLUTE, HOT)
    assert all(hot[token] for token in absolute.hot_ids)


def test_target_ids_that_leave_the_vocabulary_as_offsets_need_no_t2d() -> None:
    assert read_d2t([0, 3, 5, 8], 10).form is Form.ABSOLUTE


def test_both_make_sense() -> None:
    assert read_d2t([0, 2, 3, 5], 10).form is Form.AMBIGUOUS
    # With a t2d it is clear, whichever it is.
    assert read_d2t([0, 2, 3, 5], 10, to_t2d((0, 2, 3, 5), 10)).form is Form.ABSOLUTE


def test_faults_are_kept_for_the_report() -> None:
    reading = read_d2t([0, 0, -1, 0], 10)
    assert reading.form is Form.OFFSET
    faults = find_faults(reading.hot_ids, 10)
    assert (faults.outside, faults.repeated) == ((), (2,))
    assert find_faults((0, 12, -1), 10).outside == (1, 2)


@given(
    st.integers(20, 200).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=2, max_size=n))
    )
)
def test_round_trip(case: tuple[int, set[int]]) -> None:
    size, ids = case
    hot_ids = tuple(sorted(ids))
    flags = to_t2d(hot_ids, size)
    assert sum(flags) == len(hot_ids)
    for form, stored in ((Form.OFFSET, to_offsets(hot_ids)), (Form.ABSOLUTE, list(hot_ids))):
        reading = read_d2t(stored, size, flags)
        # A map that is the same in both forms is the identity.
        assert reading.hot_ids == hot_ids
        assert reading.form is form or to_offsets(hot_ids) == list(hot_ids)


@pytest.mark.parametrize("values", [[], [0]])
def test_small(values: list[int]) -> None:
    assert read_d2t(values, 4).hot_ids == tuple(values)
