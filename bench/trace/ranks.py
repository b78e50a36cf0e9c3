"""Which file is which rank, and whether the set is whole. No share is computed from a set with a hole in it."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from k25serve.bench.trace.errors import RankError, TraceError
from k25serve.bench.trace.layout import EventStream

SUFFIXES = (".json", ".json.gz")
RANKS_AT_MOST = 65_536
# Not a rank: vLLM's API server (v1/engine/async_llm.py), SGLang's merger (utils/profile_merger.py).
NOT_A_RANK = re.compile(r"async_llm|^merged-")
# SGLang 0.5.x: [PREFIX-]ID-TP-0[-DP-0][-PP-0][-EP-0][-STAGE].trace.json.gz (scheduler_components/profiler_manager.py).
SGLANG = re.compile(
    r"-TP-(?P<TP>\d+)(?:-DP-(?P<DP>\d+))?(?:-PP-(?P<PP>\d+))?(?:-EP-\d+)?(?:-(?P<stage>[A-Z_]+))?\.trace\.json"
)
# vLLM 0.16: dp0_pp0_tp3_dcp0_ep3_rank3.TIME.pt.trace.json.gz; before: ID-rank-3.TIME.pt.trace.json.gz.
VLLM = re.compile(r"[-_.]rank[-_]?(?P<rank>\d+)[._-]")


class RankId(NamedTuple):
    """Where a trace comes from. `stage`: the part of the run, where the engine wrote one file for each."""

    axes: tuple[tuple[str, int], ...]
    stage: str = ""

    @property
    def label(self) -> str:
        """Like TP-3 or TP-3-PP-1."""
        return "-".join([*(f"{axis}-{index}" for axis, index in self.axes), *([self.stage] if self.stage else [])])


class TraceFile(NamedTuple):
    """A file and the rank that it holds."""

    path: Path
    rank: RankId


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """The trace files among `paths`; a folder stands for those in it. Raises TraceError where there are none."""
    given = list(paths)
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
            found += [file for file in inside if not NOT_A_RANK.search(file.name) and not file.is_dir()]
        elif path.is_file():
            found.append(path)
        else:
            raise TraceError(f"{path}: no such file or folder; pass a profile's folder or its trace files")
    for path in found:
        if not path.is_file():
            raise TraceError(f"{path}: named like a trace, but no file (a dangling link, a pipe); remove it")
    if not found:
        raise TraceError(f"{', '.join(map(str, given))}: no *.json or *.json.gz; pass the profiler's output folder")
    return found


def identify(paths: Sequence[Path], *, partial: bool = False) -> tuple[list[TraceFile], int]:
    """Each file with its rank, in order, and the world size.

    Ranks come from the trace's distributedInfo where every file has it, else from the file names. Raises RankError:
    a rank that can't be told, is there twice, or (unless `partial`) is missing.
    """
    infos = [_distributed_info(path) for path in paths]
    named = [_from_name(path.name) for path in paths]
    stages = [rank.stage if rank else "" for rank in named]
    if all("rank" in info for info in infos):
        ranks = [RankId((("rank", info["rank"]),), stage) for info, stage in zip(infos, stages, strict=True)]
    elif len(paths) == 1 and named[0] is None:
        ranks = [RankId((("rank", 0),))]
    else:
        unknown = [path.name for path, rank in zip(paths, named, strict=True) if rank is None]
        if unknown:
            raise RankError(
                f"rank of {', '.join(unknown)} cannot be told: no distributedInfo in it, no -TP-N or -rank-N in its "
                "name; rename it, or pass the files of one run only"
            )
        ranks = [rank for rank in named if rank is not None]
    files = sorted(map(TraceFile, paths, ranks), key=lambda file: file.rank)
    _refuse_twins(files)
    for file in files:
        if any(index >= RANKS_AT_MOST for _, index in file.rank.axes):
            raise RankError(f"{file.path}: {file.rank.label} is no rank: they go up to {RANKS_AT_MOST - 1}; rename it")
    world = max((info.get("world_size", 0) for info in infos), default=0)
    if not partial:
        _refuse_gaps(files, world)
    return files, max(world, len({file.rank.axes for file in files}))


def _distributed_info(path: Path) -> dict[str, int]:
    """Rank and world size from a trace's header, where it has them. Raises RankError for numbers that are none."""
    info = EventStream(path, lambda _: None).header.get("distributedInfo")
    if not isinstance(info, dict):
        return {}
    found = {key: info[key] for key in ("rank", "world_size") if key in info}
    for key, value in found.items():
        if type(value) is not int or not 0 <= value <= RANKS_AT_MOST:
            raise RankError(f"{path}: distributedInfo.{key} is {value!r:.40}, which is none; profile again")
    return found


def _from_name(name: str) -> RankId | None:
    if found := SGLANG.search(name):
        axes = tuple((axis, int(found[axis])) for axis in ("TP", "DP", "PP") if found[axis])
        return RankId(axes, found["stage"] or "")
    if found := VLLM.search(name):
        return RankId((("rank", int(found["rank"])),))
    return None


def _refuse_twins(files: Sequence[TraceFile]) -> None:
    counts = Counter(file.rank for file in files)
    twins = [f"{file.rank.label} ({file.path.name})" for file in files if counts[file.rank] > 1]
    if twins:
        raise RankError(f"ranks are there twice: {', '.join(twins)}; pass the files of one run only")


def _refuse_gaps(files: Sequence[TraceFile], world: int) -> None:
    missing = []
    for stage in sorted({file.rank.stage for file in files}):
        ranks = [dict(file.rank.axes) for file in files if file.rank.stage == stage]
        for axis in sorted({name for rank in ranks for name in rank}):
            there = {rank.get(axis, 0) for rank in ranks}
            size = world if axis == "rank" and world else max(there) + 1
            names = [f"{axis}-{index}" for index in range(size) if index not in there]
            missing += [f"{name} ({stage})" if stage else name for name in names]
        if world and len(ranks) < world and not missing:
            missing.append(f"{world - len(ranks)} of {world} ranks")
    if missing:
        raise RankError(
            f"ranks are missing: {', '.join(missing)}; add their files, or pass --partial to look at those there are"
        )
