"""The capture: row by row through the engine, shard by shard onto the disk."""

import asyncio
import fcntl
import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.target import Target
from k25serve.drafters.training.capture.budget import check_room, size_text
from k25serve.drafters.training.capture.engine import MARKER, Engine, EngineState, session, wait_for
from k25serve.drafters.training.capture.files import Kept, Meaning, hash_of, keep, name_of, read_states
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.rows import Row, Split
from k25serve.drafters.training.capture.shards import File, Shard, Sidecar, bad_files, plan_shards
from k25serve.drafters.training.progress import Progress

LOCK = ".lock"


@dataclass(frozen=True)
class CaptureReport:
    """What a capture did. kept: rows whose file was there and right. mended: had a file that was wrong."""

    shards: int = 0
    captured: int = 0
    kept: int = 0
    mended: int = 0
    tokens: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: "CaptureReport") -> "CaptureReport":
        return CaptureReport(*(a + b for a, b in zip(self._values, other._values, strict=True)))  # type: ignore[arg-type]

    @property
    def tokens_per_second(self) -> float:
        """Tokens captured a second; of this run, not of what was there."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def _values(self) -> tuple[float, ...]:
        return (self.shards, self.captured, self.kept, self.mended, self.tokens, self.nbytes, self.seconds)


def capture(
    options: CaptureOptions,
    data: Path,
    out: Path,
    url: str,
    target: Path,
    staging: Path | None,
    progress: Progress,
    shards: Sequence[Shard] | None = None,
) -> CaptureReport:
    """Capture `shards`, by default all of the data, into `out` (a run's `hidden/`). Goes on where it was stopped.

    staging: the engine's directory as this process sees it; None: under the same path. Raises TrainingError.
    """
    wanted = plan_shards(data, options) if shards is None else tuple(shards)
    report = CaptureReport()
    state = asyncio.run(_state(url, options, target))
    total = check_room(out, wanted, state.meaning, options.disk_budget_bytes)
    progress.start(f"capture, {size_text(total)}", sum(len(shard.rows) for shard in wanted))
    for shard in wanted:
        report += capture_shard(shard, options, data, out, url, target, staging, progress)
    return report


def capture_shard(
    shard: Shard,
    options: CaptureOptions,
    data: Path,
    out: Path,
    url: str,
    target: Path,
    staging: Path | None,
    progress: Progress,
) -> CaptureReport:
    """Capture one shard and seal it; a sealed one is only verified. Advances `progress` by a row at a time."""
    with alone(out):
        return asyncio.run(_Work(shard, options, data, out, target, progress).run(url, staging))


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Raises TrainingError while another capture writes to `out`; the lock ends with its process."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(f"--out {out}: another capture writes there; wait for it, or stop it") from None
        yield


class _Work:
    """One shard."""

    def __init__(
        self, shard: Shard, options: CaptureOptions, data: Path, out: Path, target: Path, progress: Progress
    ) -> None:
        self._shard, self._options, self._progress = shard, options, progress
        self._rows = Split(data, shard.split)
        self._folder, self._sidecar = shard.folder(out), shard.sidecar(out)
        self._target, self._target_hash = target, config_hash(target)
        self._files: dict[int, File] = {}
        self._report = CaptureReport(shards=1)

    async def run(self, url: str, staging: Path | None) -> CaptureReport:
        begun = time.monotonic()
        self._folder.mkdir(parents=True, exist_ok=True)
        async with session(self._options.timeout_s) as opened:
            engine = Engine(opened, url)
            state = await checked(engine, self._options, self._target)
            missing = self._missing(state.meaning)
            if missing:
                source = staging_of(state, staging)
                self._sidecar.unlink(missing_ok=True)
                await self._capture(engine, state, source, missing)
        if missing:
            self._seal(state)
        return replace(self._report, seconds=time.monotonic() - begun if missing else 0.0)

    def _missing(self, meaning: Meaning) -> list[int]:
        """Rows without a right file; notes those that have one."""
        sealed = Sidecar.read(self._sidecar)
        if sealed is not None and sealed.describes(self._shard, meaning, self._target_hash):
            rows = {index: self._rows[index] for index in self._shard.rows}
            bad = bad_files(sealed, self._folder, self._options.verify, rows)
            good = {file.row: file for file in sealed.files if file.row not in bad}
            self._note(good)
            self._count_mended(set(bad))
            return [index for index in self._shard.rows if index not in good]
        wrong = set()
        for index in self._shard.rows:
            path = self._folder / name_of(index)
            if not path.exists():
                continue
            row = self._rows[index]
            if isinstance(read_states(path, row, meaning, self._target_hash), str):
                wrong.add(index)
            else:
                kept = hash_of(path)
                assert kept is not None, f"{path} was there just now"
                self._note({index: _file(row, kept)})
        self._count_mended(wrong)
        return [index for index in self._shard.rows if index not in self._files]

    def _note(self, files: dict[int, File]) -> None:
        self._files |= files
        self._report = replace(self._report, kept=self._report.kept + len(files))
        if files:
            self._progress.advance(len(files))

    def _count_mended(self, rows: set[int]) -> None:
        self._report = replace(self._report, mended=len(rows))

    async def _capture(self, engine: Engine, state: EngineState, staging: Path, missing: Sequence[int]) -> None:
        waiting = iter(missing)

        async def worker() -> None:
            for index in waiting:
                row = self._rows[index]
                kept = await self._one(engine, state, staging, row)
                self._files[index] = _file(row, kept)
                self._report = replace(
                    self._report,
                    captured=self._report.captured + 1,
                    tokens=self._report.tokens + len(row.input_ids),
                    nbytes=self._report.nbytes + kept.size,
                )
                self._progress.advance()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._options.concurrency):
                    group.create_task(worker())
        except* TrainingError as errors:
            raise errors.exceptions[0] from None

    async def _one(self, engine: Engine, state: EngineState, staging: Path, row: Row) -> Kept:
        if state.longest is not None and len(row.input_ids) > state.longest:
            raise TrainingError(
                f"data/{row.split} row {row.index}: {len(row.input_ids)} tokens, the engine takes {state.longest}; "
                "raise its context_length, or prepare the data with a smaller maximum"
            )
        stem = f"{row.split}-{row.index}"
        _remove_left(staging, stem)
        rid = f"{stem}-{secrets.token_hex(4)}"
        await engine.prefill(rid, row.input_ids)
        path = staging / f"{rid}.safetensors"
        await wait_for(path, engine, rid, self._options.timeout_s)
        return await asyncio.to_thread(self._keep, path, row, state.meaning)

    def _keep(self, path: Path, row: Row, meaning: Meaning) -> Kept:
        found = read_states(path, row, meaning, None)
        if isinstance(found, str):
            raise TrainingError(f"{path}: {found}; see the engine's log, then start again: it goes on")
        try:
            kept = keep(found, row, meaning, self._target_hash, self._folder)
        except OSError as error:
            raise TrainingError(
                f"{self._folder}: {name_of(row.index)} can't be written ({error.strerror}); mend it, then start again: "
                "it goes on"
            ) from None
        path.unlink()
        return kept

    def _seal(self, state: EngineState) -> None:
        Sidecar(
            split=self._shard.split,
            index=self._shard.index,
            start=self._shard.start,
            stop=self._shard.stop,
            layers=state.meaning.layers,
            last_layer=state.meaning.last_layer,
            hidden_size=state.meaning.hidden_size,
            target_config_sha256=self._target_hash,
            sglang=state.version,
            engine=state.settings,
            capture={"concurrency": self._options.concurrency},
            files=tuple(self._files[index] for index in self._shard.rows),
        ).write(self._sidecar)


def config_hash(target: Path) -> str:
    """Hash of the target's config.json. Raises TrainingError where there is none."""
    path = target / "config.json"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise TrainingError(f"--target {path}: {error.strerror}; point at the served model's folder") from None


async def checked(engine: Engine, options: CaptureOptions, target: Path) -> EngineState:
    """The engine's state, if it captures what is asked for, of this target. Raises TrainingError, CheckpointError."""
    state = await engine.state()
    config = Target(target)
    shape = (config.size("hidden_size"), config.size("num_hidden_layers"))
    served = (state.meaning.hidden_size, state.meaning.last_layer + 1)
    if shape != served:
        raise TrainingError(
            f"--target {target}: hidden_size and layers are {shape}, those of the served model {served}; "
            "give the served model's folder"
        )
    if options.layers is not None and options.layers != state.meaning.layers:
        asked, does = (",".join(map(str, layers)) for layers in (options.layers, state.meaning.layers))
        raise TrainingError(
            f"--layers {asked}: the engine captures {does}; start it with "
            f"--set 'patches.capture_states.layers=\"{asked}\"'"
        )
    return state


def staging_of(state: EngineState, given: Path | None) -> Path:
    """The engine's directory as this process sees it. Raises TrainingError where it is another one."""
    path = given or state.directory
    try:
        said = json.loads((path / MARKER).read_bytes())
    except (OSError, ValueError):
        raise TrainingError(
            f"--staging {path}: not the folder that the engine writes to, which is {state.directory} where it runs; "
            "give it as it is seen here"
        ) from None
    if said.get("directory") != str(state.directory) or said.get("layers") != list(state.meaning.layers):
        raise TrainingError(
            f"--staging {path}: another engine writes there ({said}); give this one's, {state.directory} where it runs"
        )
    return path


async def _state(url: str, options: CaptureOptions, target: Path) -> EngineState:
    async with session(options.timeout_s) as opened:
        return await checked(Engine(opened, url), options, target)


def _remove_left(staging: Path, stem: str) -> None:
    """Files of a run that was killed between a request and its file."""
    for left in staging.glob(f"{stem}-*.safetensors"):
        left.unlink(missing_ok=True)


def _file(row: Row, kept: Kept) -> File:
    return File(
        row=row.index,
        id=row.id,
        tokens=len(row.input_ids),
        inputs=row.sha256,
        sha256=kept.sha256,
        bytes=kept.size,
    )
