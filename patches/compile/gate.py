"""The gate: compile every variant; compare it with the limit, with what a default tile must have, with the baseline."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from k25serve.patches.compile.assembly import Resources, resources_of
from k25serve.patches.compile.baseline import Baseline
from k25serve.patches.compile.sglang_kernels import SGLangKernels
from k25serve.patches.compile.stub import launches_compile_for, triton_version
from k25serve.patches.compile.upstream import upstream
from k25serve.patches.compile.variants import Compiled, ours
from k25serve.patches.kernels.mla_verify.tiles import SHARED_LIMIT


@dataclass(frozen=True)
class Row:
    """One variant: what it needs and what is wrong with it; `known` tells that the baseline has it."""

    name: str
    default: bool
    known: bool
    resources: Resources
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What `run` found. passed: no row has a problem."""

    arch: str
    triton: str
    limit: int
    seconds: float
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        return not any(row.problems for row in self.rows)


def run(arch: str, baseline: Baseline, sglang: SGLangKernels | None = None) -> Report:
    """Compile every variant for `arch` with a cache of its own; SGLang's kernels too where `sglang` is given.

    Needs no GPU, and no torch unless `sglang` is given. Raises KeyError for an architecture without a limit.
    """
    limit, started = SHARED_LIMIT[arch], monotonic()
    known = baseline.of(triton_version(), arch)
    rows: list[Row] = []
    with _private_cache(), launches_compile_for(arch) as collector:
        rows.extend(judge(compiled, arch, limit, known) for compiled in ours(arch, collector))
        if sglang is not None:
            rows.extend(judge(compiled, arch, limit, known) for compiled in upstream(sglang, collector))
    return Report(arch, triton_version(), limit, round(monotonic() - started, 1), tuple(rows))


def judge(compiled: Compiled, arch: str, limit: int, known: dict[str, Resources]) -> Row:
    """Compare one compiled variant with the limit and, unless it is a default tile, with the baseline."""
    found = resources_of(compiled.kernel, arch)
    before = known.get(compiled.name)
    problems = []
    # What never fitted is held to the baseline as well: SGLang's Hopper tiles on SM120, say.
    if found.shared > limit and (before is None or before.shared <= limit):
        problems.append(f"{found.shared:,} bytes of shared memory, {limit:,} at most")
    if compiled.default and found.spill_stores + found.spill_loads:
        problems.append(f"spills {found.spill_stores} bytes out, {found.spill_loads} back: a default tile must not")
    if "products" in compiled.needs and not found.products:
        problems.append("no tensor-core product")
    if "copies" in compiled.needs and not (found.copies and found.ahead):
        problems.append(f"not double-buffered: {found.copies} asynchronous copies, {found.ahead} groups in flight")
    if before is not None and not compiled.default:
        for what, now, then in (
            ("shared memory", found.shared, before.shared),
            ("spill stores", found.spill_stores, before.spill_stores),
            ("spill loads", found.spill_loads, before.spill_loads),
        ):
            if now > then:
                problems.append(f"{what} grew from {then:,} to {now:,} bytes since the baseline")
    return Row(compiled.name, compiled.default, before is not None, found, tuple(problems))


@contextmanager
def _private_cache() -> Iterator[Path]:
    """A kernel cache that nobody else has filled, or fills meanwhile."""
    before = os.environ.get("TRITON_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="k25serve-compile-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["TRITON_CACHE_DIR"]
            else:
                os.environ["TRITON_CACHE_DIR"] = before
