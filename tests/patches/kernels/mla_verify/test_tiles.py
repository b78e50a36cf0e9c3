"""The tile table, the override, the split count and the arithmetic that the kernels rely on."""

import pytest

from k25serve.patches.kernels.mla_verify import tiles
from k25serve.patches.kernels.mla_verify.workspace import rows_needed, split_count


@pytest.mark.parametrize("key", tiles.TILES, ids=str)
def test_every_entry_is_valid(key: tuple[str, tiles.Kind, int]) -> None:
    assert tiles.tile_for(*key) == tiles.TILES[key]


def test_the_table_is_complete() -> None:
    kinds = {kind for _, kind, _ in tiles.TILES}
    assert set(tiles.TILES) == {
        (arch, kind, rows) for arch in tiles.SHARED_LIMIT for kind in kinds for rows in tiles.ROWS
    }


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((9, 0), "sm_90"), ((12, 0), "sm_120"), ((12, 1), "sm_120"), ((8, 9), "sm_120"), ((10, 0), "sm_120")],
)
def test_architecture(capability: tuple[int, int], arch: str) -> None:
    assert tiles.architecture(capability) == arch


def test_override_replaces_fields() -> None:
    tile = tiles.tile_for("sm_120", "bf16", 32, "stages=3, granule=64,tokens_first=0")
    assert (tile.stages, tile.granule, tile.tokens_first) == (3, 64, False)
    assert tile.tokens == tiles.TILES["sm_120", "bf16", 32].tokens


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("depth=3", "no field 'depth'"),
        ("stages=many", "stages='many' is no whole number"),
        ("tokens=24", "tokens=24 is not one of"),
        ("chunks=8", "chunks=8 is not one of"),
        ("granule=24", "granule=24 is no multiple of tokens=16"),
        ("stages=0", "stages=0"),
        ("blocks=0", "blocks=0"),
    ],
)
def test_a_bad_override_names_the_field(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"{tiles.OVERRIDE}.*{message}"):
        tiles.tile_for("sm_120", "bf16", 32, override)


@pytest.mark.parametrize(("rows_total", "rows"), [(1, 16), (16, 16), (17, 32), (32, 32), (512, 32)])
def test_rows_of_block(rows_total: int, rows: int) -> None:
    assert tiles.rows_of_block(rows_total) == rows


@pytest.mark.parametrize(
    ("n_splits", "shape"), [(1, (8, 512)), (8, (8, 512)), (9, (16, 256)), (64, (64, 128)), (188, (128, 64))]
)
def test_merge_shape(n_splits: int, shape: tuple[int, int]) -> None:
    assert tiles.merge_shape(n_splits) == shape


@pytest.mark.parametrize("draft_tokens", range(1, 9))
def test_division_by_a_product_is_exact(draft_tokens: int) -> None:
    """head_and_draft of the kernels: the launch passes ceil(65536 / draft_tokens)."""
    reciprocal = -(-65536 // draft_tokens)
    assert all((row * reciprocal) >> 16 == row // draft_tokens for row in range(4096))


@pytest.mark.parametrize("batch", [1, 3, 4, 16, 64, 188, 500])
@pytest.mark.parametrize(("heads", "draft_tokens"), [(8, 4), (8, 8), (64, 4), (128, 8)])
def test_scratch_holds_every_batch(batch: int, heads: int, draft_tokens: int) -> None:
    """A workspace for the largest batch serves every smaller one and every shorter draft."""
    table = {rows: tiles.tile_for("sm_120", "bf16", rows) for rows in tiles.ROWS}
    capacity = rows_needed(table, 188, batch, heads, draft_tokens)
    for smaller in range(1, batch + 1):
        for drafts in range(1, draft_tokens + 1):
            rows = tiles.rows_of_block(heads * drafts)
            row_blocks = -(-heads * drafts // rows)
            splits = split_count(188, table[rows], smaller, row_blocks)
            assert smaller * row_blocks * splits * rows <= capacity
