"""Which tile a launch uses: a table by architecture, kind of cache and rows of a block, and the override.

Every entry compiles without spills for its architecture under each supported Triton; `patches/compile` holds that.
Measured shared memory, registers and times: bench/kernels/NOTES.md.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["bf16", "fp8", "fp8_dot"]

# Most bytes of shared memory a block may have, by architecture (opt-in limit).
SHARED_LIMIT: Mapping[str, int] = {"sm_90": 232_448, "sm_120": 101_376}
OVERRIDE = "K25SERVE_MLA_VERIFY_TILE"
# Rows of a block: as few as hold every (head, draft token) pair of a request, and never more than 32, beyond which
# neither the queries nor the accumulators fit.
ROWS = (16, 32)

# Most splits of a launch, and the merge's shape for it. The last one serves any number.
MERGE_SHAPES: tuple[tuple[int, tuple[int, int]], ...] = (
    (8, (8, 512)),
    (16, (16, 256)),
    (64, (64, 128)),
    (128, (128, 64)),
)


@dataclass(frozen=True)
class Tile:
    """One launch configuration of the split kernel.

    tokens: tokens of a tile. chunks: parts of the latent width, and warps. stages: of Triton's pipeliner (n stages keep
    n - 1 tiles in shared memory). granule: a split's tokens are a multiple of it. blocks: blocks a multiprocessor is
    given. tokens_first: neighbouring threads load neighbouring tokens, which Triton before 3.7 must be told.
    """

    tokens: int
    chunks: int
    stages: int
    granule: int
    blocks: int
    tokens_first: bool = True


TILES: Mapping[tuple[str, Kind, int], Tile] = {
    ("sm_120", "bf16", 16): Tile(tokens=32, chunks=4, stages=3, granule=32, blocks=1),
    ("sm_120", "bf16", 32): Tile(tokens=16, chunks=4, stages=4, granule=32, blocks=1),
    ("sm_120", "fp8", 16): Tile(tokens=32, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_120", "fp8", 32): Tile(tokens=16, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_120", "fp8_dot", 16): Tile(tokens=32, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_120", "fp8_dot", 32): Tile(tokens=32, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_90", "bf16", 16): Tile(tokens=32, chunks=4, stages=3, granule=32, blocks=2),
    ("sm_90", "bf16", 32): Tile(tokens=16, chunks=4, stages=4, granule=32, blocks=2),
    ("sm_90", "fp8", 16): Tile(tokens=32, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_90", "fp8", 32): Tile(tokens=16, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_90", "fp8_dot", 16): Tile(tokens=32, chunks=8, stages=1, granule=32, blocks=1),
    ("sm_90", "fp8_dot", 32): Tile(tokens=32, chunks=8, stages=1, granule=32, blocks=1),
}

# Overrides that we know the use of, compiled with the defaults and held to a recorded baseline: fewer stages for less
# shared memory, fewer tokens for more splits of a short prefix.
ALTERNATES: Mapping[Kind, tuple[str, ...]] = {"bf16": ("stages=3", "tokens=16,granule=16")}


def architecture(capability: tuple[int, int]) -> str:
    """The table's name for a compute capability: Hopper has entries of its own, everything else takes SM120's."""
    return "sm_90" if capability == (9, 0) else "sm_120"


def rows_of_block(rows_total: int) -> int:
    """Rows of a block for a request of `rows_total` = heads x draft tokens rows."""
    return ROWS[0] if rows_total <= ROWS[0] else ROWS[1]


def tile_for(arch: str, kind: Kind, rows: int, override: str = "") -> Tile:
    """The table's tile, with the fields that `override` names ("tokens=16,stages=3") replaced.

    Raises ValueError for a field that a tile hasn't, a value that isn't an integer, or a tile that can't run.
    """
    values: dict[str, Any] = asdict(TILES[arch, kind, rows])
    for part in filter(None, (piece.strip() for piece in override.split(","))):
        name, _, value = part.partition("=")
        if name not in values:
            raise ValueError(f"{OVERRIDE}: no field {name!r} in {part!r}; fields are {', '.join(values)}")
        if not value.isdigit():
            raise ValueError(f"{OVERRIDE}: {name}={value!r} is no whole number; write for example {name}=1")
        values[name] = type(values[name])(int(value))
    tile = Tile(**values)
    return _checked(tile, kind)


def _checked(tile: Tile, kind: Kind) -> Tile:
    # 64 rope columns in 8 chunks are 8 each, less than a product takes: only the fp8 kernel pads them.
    chunks = (4,) if kind == "bf16" else (4, 8)
    for name, value, allowed in (("tokens", tile.tokens, (16, 32, 64)), ("chunks", tile.chunks, chunks)):
        if value not in allowed:
            raise ValueError(f"{OVERRIDE}: {name}={value} is not one of {allowed}")
    if tile.granule <= 0 or tile.granule % tile.tokens:
        raise ValueError(f"{OVERRIDE}: granule={tile.granule} is no multiple of tokens={tile.tokens}; set both")
    if tile.stages < 1 or tile.blocks < 1:
        raise ValueError(f"{OVERRIDE}: stages={tile.stages} and blocks={tile.blocks} must be at least 1")
    return tile


def merge_shape(n_splits: int) -> tuple[int, int]:
    """Splits read at a time and columns of a block of the merge kernel, for a launch of `n_splits`."""
    return next((shape for most, shape in MERGE_SHAPES if n_splits <= most), MERGE_SHAPES[-1][1])
