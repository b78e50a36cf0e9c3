"""Choosing a reduced vocabulary (https://github.com/sgl-project/SpecForge/pull/76), and swapping ids in one."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k25serve.drafters.checkpoint import AdaptError
from k25serve.drafters.vocab import choose_ids, read_counts, swap_ids, to_offsets, to_t2d

COUNTS = {3: 9, 7: 4, 8: 4, 11: 1, 15: 30, 19: 2}


def test_fewer_counted_ids_than_places_are_filled_up() -> None:
    ids = choose_ids(COUNTS, 10, 20, always=(18, 19))
    d2t, t2d = to_offsets(ids), to_t2d(ids, 20)
    assert (len(d2t), len(t2d), sum(t2d)) == (10, 20, 10)
    assert ids == [0, 1, 2, 3, 7, 8, 11, 15, 18, 19]
    hot = [place + offset for place, offset in enumerate(d2t)]
    assert hot == sorted(set(hot))
    assert max(hot) < 20
    assert choose_ids(dict(reversed(COUNTS.items())), 10, 20, always=(19, 18)) == ids


@given(
    st.dictionaries(st.integers(0, 49), st.integers(0, 5)), st.sets(st.integers(0, 49), max_size=8), st.integers(8, 50)
)
def test_always_kept_and_most_frequent(counts: dict[int, int], always: set[int], size: int) -> None:
    ids = choose_ids(counts, size, 50, always)
    assert len(ids) == size == len(set(ids))
    assert always <= set(ids)
    free, left_out = set(ids) - always, set(range(50)) - set(ids)
    if free and left_out:
        assert min(counts.get(token, 0) for token in free) >= max(counts.get(token, 0) for token in left_out)


@pytest.mark.parametrize(
    ("counts", "size", "always", "told"),
    [
        ({25: 1}, 10, (), "id 25 is outside"),
        ({}, 1, (3, 4), "between the 2 ids"),
        ({}, 21, (), "must lie between"),
    ],
)
def test_refused(counts: dict[int, int], size: int, always: tuple[int, ...], told: str) -> None:
    with pytest.raises(AdaptError, match=told):
        choose_ids(counts, size, 20, always)


def test_the_rarest_leave() -> None:
    counts = {0: 50, 1: 2, 2: 2, 3: 7, 9: 0}
    assert swap_ids((0, 1, 2, 3, 9), (8, 9), counts) == {2: 8}
    assert swap_ids((0, 1, 2, 3), (7, 8), counts) == {2: 7, 1: 8}
    assert swap_ids((0, 1), (1, 0), counts) == {}
    with pytest.raises(AdaptError, match="no room for 2 missing tokens"):
        swap_ids((0, 1), (0, 8, 9), counts)


def test_counts_from_a_file_or_by_rank(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    path.write_text(json.dumps({"3": 7}))
    assert read_counts(str(path), 10) == {3: 7}
    path.write_text("[5, 0, 2]")
    assert read_counts(str(path), 10) == {0: 5, 1: 0, 2: 2}
    ranked = read_counts("rank", 10)
    assert swap_ids((1, 5, 9), (0,), ranked) == {9: 0}
    for text, told in (
        ("3", "no counts can be read"),
        ('{"30": 1}', "id 30 is outside"),
        ("{", "no counts can be read"),
    ):
        path.write_text(text)
        with pytest.raises(AdaptError, match=told):
            read_counts(str(path), 10)
    with pytest.raises(AdaptError, match="no counts can be read"):
        read_counts(str(tmp_path / "none.json"), 10)
