"""Every launch of our verify kernel that differs in what is compiled: default tiles, and the alternates we name."""

from collections.abc import Iterator
from dataclasses import dataclass

from k25serve.patches.compile.fake import FakeTensor
from k25serve.patches.compile.stub import Collector
from k25serve.patches.kernels.mla_verify import Workspace, mla_verify, tiles
from k25serve.patches.kernels.mla_verify.workspace import LATENT, rows_needed

WIDTH, HEADS, PROCESSORS = LATENT + 64, 8, 188
DTYPES: dict[tiles.Kind, str] = {"bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp8_dot": "float8_e4m3fn"}


@dataclass(frozen=True)
class Compiled:
    """A kernel that a launch compiled. default: no spill is allowed; needs: "products", "copies" that must be there."""

    name: str
    kernel: object
    default: bool
    needs: tuple[str, ...] = ()


def ours(arch: str, collector: Collector) -> Iterator[Compiled]:
    """Launch the verify kernel once for every variant, and yield what was compiled.

    A variant is a kind of cache, the rows of a block, an override of ours, and a shape of the merge; batch size, heads,
    draft tokens, splits and strides are arguments of the same kernels.
    """
    for kind in DTYPES:
        for override in ("", *tiles.ALTERNATES.get(kind, ())):
            default = kind != "fp8_dot" and not override
            for rows, draft_tokens in ((16, 2), (32, 4)):
                _launch(arch, kind, draft_tokens, 1, override)
                needs = ("products", "copies") if kind == "bf16" else ("products",)
                name = " ".join(filter(None, (kind, f"{rows} rows", override)))
                for kernel in collector.take():
                    if "merge" not in kernel.name:
                        yield Compiled(name, kernel, default, needs)
    for most, shape in tiles.MERGE_SHAPES:
        _launch(arch, "bf16", 4, most, "")
        for kernel in collector.take():
            if "merge" in kernel.name:
                yield Compiled(f"merge {shape[0]} x {shape[1]}", kernel, default=True)


def _launch(arch: str, kind: tiles.Kind, draft_tokens: int, n_splits: int, override: str) -> None:
    batch, tokens = 2, 2 * draft_tokens
    table = {rows: tiles.tile_for(arch, kind, rows, override) for rows in tiles.ROWS}
    scratch = rows_needed(table, PROCESSORS, batch * n_splits, HEADS, draft_tokens)
    partial, lse = FakeTensor((scratch, LATENT), "float32"), FakeTensor((scratch,), "float32")
    mla_verify(
        FakeTensor((tokens, HEADS, WIDTH), "bfloat16"),  # type: ignore[arg-type]
        FakeTensor((tokens, WIDTH), "bfloat16"),  # type: ignore[arg-type]
        FakeTensor((64, 1, WIDTH), DTYPES[kind]),  # type: ignore[arg-type]
        FakeTensor((batch + 1,), "int32"),  # type: ignore[arg-type]
        FakeTensor((64,), "int64"),  # type: ignore[arg-type]
        FakeTensor((tokens, HEADS, LATENT), "bfloat16"),  # type: ignore[arg-type]
        0.1,
        Workspace(partial, lse, PROCESSORS, kind, table),  # type: ignore[arg-type]
        n_splits=n_splits,
    )
