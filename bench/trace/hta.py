"""Side by side with HolisticTraceAnalysis (PyPI): speed, memory, answers, and where they differ.

HTA runs in its own interpreter (it needs pandas < 3). The large set measures; the small ones, whose answers are known
from how they were made, show where the two differ.
"""

import importlib.util
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import TraceError
from k25serve.bench.trace.report import TraceReport
from k25serve.bench.trace.synthetic import GEMM, NCCL, Row, kernel, launch, span
from k25serve.server.errors import UserError

POLL_S = 0.2
SPARE_MB = 1500.0  # what the machine keeps for others: HTA is ended before it has less left
CUSTOM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)"


class Case(NamedTuple):
    """A small set. `communication_us`: what all ranks together spend in communication, known; None: must be refused."""

    name: str
    files: dict[int, Path]
    communication_us: float | None
    why: str


def cases(folder: Path) -> Iterator[Case]:
    """Write the small sets, one after the other."""
    plain = {rank: list(synthetic.decode_steps(4, 3)) for rank in range(2)}
    yield Case("plain", _write(folder / "plain", plain), 2 * 4 * 3 * 40.0, "nothing special: the two must agree")
    yield Case(
        "custom all-reduce",
        _write(folder / "custom", {rank: [_renamed(row) for row in rows] for rank, rows in plain.items()}),
        2 * 4 * 3 * 40.0,
        "HTA knows communication by the prefix nccl; an engine's own all-reduce counts as computation",
    )
    yield Case(
        "last step, eager",
        _write(folder / "last", {rank: list(_profiler_steps(4)) for rank in range(2)}),
        2 * 4 * 30.0,
        "HTA leaves the last ProfilerStep out by default (include_last_profiler_step=False)",
    )
    short = {rank: list(_short_kernels(400)) for rank in range(2)}
    yield Case(
        "short kernels",
        _write(folder / "short", short),
        2 * 400 * 1.6,
        "HTA rounds time stamps and lengths to whole microseconds by default",
    )
    gap = {rank: rows for rank, rows in {0: plain[0], 2: plain[0]}.items()}
    yield Case(
        "rank 1 of 3 missing",
        _write(folder / "gap", gap, world=3),
        None,
        "HTA takes the ranks that there are as they are",
    )


def check_interpreter(interpreter: Path) -> None:
    """Raise UserError where `interpreter` can't import HTA."""
    try:
        subprocess.run(
            [interpreter, "-P", "-c", "import hta.trace_analysis"], capture_output=True, text=True, check=True
        )
    except OSError as error:
        raise UserError(f"--python {interpreter}: cannot be run ({error.strerror}); give an interpreter") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:]
        raise UserError(
            f"--python {interpreter}: cannot import HTA ({last[0] if last else error.returncode}); install "
            "HolisticTraceAnalysis and pandas<3 into its environment"
        ) from None


def read_alone(files: list[Path]) -> dict[str, Any]:
    """Our reader on `files`, in a process of its own, so that its peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run_ours, files).result()


def compare(
    interpreter: Path, folder: Path, large: list[Path], memory_gb: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """The data of a result file. `memory_gb` bounds HTA's memory, all its processes together."""
    rows = []
    for case in cases(folder):
        theirs = _run_hta(interpreter, case.files, memory_gb)
        rows.append(_case_row(case, theirs))
        say(f"{case.name}: ours {rows[-1]['ours_us']}, HTA {rows[-1]['hta_us']}, true {rows[-1]['true_us']}")
    size = sum(path.stat().st_size for path in large)
    ours = read_alone(large)
    say(f"large set, {size / 1e6:.0f} MB: ours {ours['mb_per_cpu_second']:.0f} MB/s, {ours['peak_mb']:.0f} MB")
    free = available_mb()
    theirs = _run_hta(interpreter, dict(enumerate(large)), memory_gb)
    speed = size / 1e6 / theirs["load_seconds"] if "load_seconds" in theirs else None
    say(f"HTA {theirs.get('version')}: {speed or 0:.1f} MB/s, {theirs['peak_mb']:.0f} MB {theirs.get('error', '')}")
    return {
        "large": {
            "files": len(large),
            "bytes": size,
            "hta_memory_limit_gb": memory_gb,
            "available_mb_before_hta": free,
            "ours": ours,
            "hta": {**theirs, "mb_per_second": speed},
        },
        "cases": rows,
    }


def limits(large: dict[str, Any]) -> str:
    """What bounded the large set, in one line for the result's notes."""
    theirs, size = large["hta"], large["bytes"] / 1e6
    bound = (
        f"HTA was bounded to {large['hta_memory_limit_gb']:g} GB on a machine with "
        f"{large['available_mb_before_hta'] / 1000:.1f} GB free"
    )
    if "error" in theirs:
        return f"{bound}; {size:.0f} MB of traces were more than it takes: {theirs['error']}"
    full = 1000 * large["hta_memory_limit_gb"] / theirs["peak_mb"] * size
    return (
        f"{bound}; {size:.0f} MB of traces took {theirs['peak_mb'] / 1000:.1f} GB of it, so that some {full:.0f} MB "
        "would fill the bound"
    )


def communication_us(report: TraceReport) -> float:
    """What all ranks and steps together spend in all-reduces and other collectives, each moment of a rank once."""
    return 1000 * sum(
        row.union_ms * mode.steps
        for rank in report.ranks
        for mode in rank.modes
        for row in mode.classes
        if row.name in ("all_reduce", "collective")
    )


def _case_row(case: Case, theirs: dict[str, Any]) -> dict[str, Any]:
    try:
        ours: float | str = round(communication_us(analyse(list(case.files.values()))), 3)
    except TraceError as error:
        ours = f"refused: {error}"
    types = theirs.get("kernel_types_us", {})
    found = sum(value for name, value in types.items() if "COMMUNICATION" in name)
    return {
        "case": case.name,
        "true_us": case.communication_us,
        "ours_us": ours,
        "hta_us": theirs.get("error", found),
        "hta_first_kernels": theirs.get("first_kernels"),
        "why": case.why,
    }


def _run_ours(files: list[Path]) -> dict[str, Any]:
    began, used = time.monotonic(), time.process_time()
    report = analyse(files)
    cpu = time.process_time() - used
    return {
        "bytes": sum(rank.bytes_read for rank in report.ranks),
        "device_events": sum(round(mode.launches * mode.steps) for rank in report.ranks for mode in rank.modes),
        "seconds": time.monotonic() - began,
        "cpu_seconds": cpu,
        "mb_per_cpu_second": sum(rank.bytes_read for rank in report.ranks) / 1e6 / cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "communication_us": communication_us(report),
    }


def _run_hta(interpreter: Path, files: dict[int, Path], memory_gb: float) -> dict[str, Any]:
    found = importlib.util.find_spec("k25serve.bench.trace.hta_child")
    assert found is not None
    assert found.origin is not None
    # -P: the modules beside the script are ours, and some of their names are others' too.
    command = [str(interpreter), "-P", found.origin, json.dumps({rank: str(path) for rank, path in files.items()})]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        watch = _MemoryWatch(process.pid, memory_gb)
        out, err = process.communicate()
        watch.stop()
    answer: dict[str, Any] = {"peak_mb": watch.peak_mb}
    if watch.killed:
        return {**answer, "error": watch.killed}
    if process.returncode != 0:
        last = err.strip().splitlines()[-1:]
        return {**answer, "error": f"exit {process.returncode}: {last[0] if last else 'it told nothing'}"}
    return {**answer, **json.loads(out)}


class _MemoryWatch:
    """Resident memory of a process group, polled; ends the group above a limit, or before the machine has none left."""

    def __init__(self, group: int, limit_gb: float) -> None:
        self.peak_mb = 0.0
        self.killed = ""
        self._group, self._limit_gb = group, limit_gb
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(POLL_S):
            self.peak_mb = max(self.peak_mb, _group_mb(self._group))
            if self.peak_mb > 1000 * self._limit_gb:
                self.killed = f"ended at {self._limit_gb:g} GB"
            elif available_mb() < SPARE_MB:
                self.killed = f"ended at {self.peak_mb / 1000:.1f} GB: the machine had {SPARE_MB:.0f} MB left"
            if self.killed:
                os.killpg(self._group, signal.SIGKILL)
                return

    def stop(self) -> None:
        self._done.set()
        self._thread.join()


def available_mb() -> float:
    """What the kernel says may be taken without swapping, in 10^6 bytes."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return float(lines["MemAvailable"].split()[0]) * 1024 / 1e6


def _group_mb(group: int) -> float:
    pages = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                pages += int((folder / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _write(folder: Path, ranks: dict[int, list[Row]], world: int = 2) -> dict[int, Path]:
    folder.mkdir(parents=True)
    return {
        rank: synthetic.write(folder / f"set-TP-{rank}.trace.json", rows, synthetic.header(rank, world))
        for rank, rows in ranks.items()
    }


def _renamed(row: Row) -> Row:
    return row._replace(name=CUSTOM) if row.name == NCCL else row


def _profiler_steps(count: int) -> Iterator[Row]:
    for step in range(count):
        at = 1000.0 * step
        yield span(f"ProfilerStep#{step}", at, 900.0)
        for index, (name, dur) in enumerate(((GEMM, 60.0), (NCCL, 30.0))):
            yield launch("cudaLaunchKernel", at + 10 + index, 10 * step + index + 1)
            yield kernel(name, at + 100 + 70 * index, dur, correlation=10 * step + index + 1)


def _short_kernels(count: int) -> Iterator[Row]:
    yield span("step[DECODE bs=1]", 0.0, 10.0)
    yield launch("cudaGraphLaunch", 1.0, 1)
    for index in range(count):
        yield kernel(GEMM, 20 + 4.3 * index, 2.7, correlation=1)
        yield kernel(NCCL, 22.7 + 4.3 * index, 1.6, correlation=1)
