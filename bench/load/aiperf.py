"""NVIDIA's AIPerf sends the load in place of our own client: a second opinion on the same requests.

It runs from an environment of its own (its pins clash with ours), gets our bodies word for word, and its raw export is
read into the same records, so every metric keeps its one definition.
"""

import asyncio
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from k25serve.bench.load.client import Reply
from k25serve.bench.load.endpoint import Endpoint
from k25serve.bench.load.prompts import Request
from k25serve.bench.load.run import Load
from k25serve.drafters.tiny import TARGET
from k25serve.server.errors import UserError

VERSION = "0.13.0"
REMEDY = (
    f"uv venv aiperf && uv pip install --python aiperf/bin/python aiperf=={VERSION}, then --aiperf aiperf/bin/aiperf"
)
NS = 1e-9
SHOWN = 300


def find_aiperf(given: Path | None) -> Path:
    """The program, its version checked. Raises UserError with the way to get it."""
    found = shutil.which(given if given is not None else "aiperf")
    if found is None:
        raise UserError(f"--runner aiperf: {given or 'aiperf'} is no program here; {REMEDY}")
    try:
        told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=120, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"--aiperf {found}: does not run ({error}); {REMEDY}") from None
    if told.strip() != VERSION:
        raise UserError(f"--aiperf {found}: version {told.strip()[:40]}, its export is read as of {VERSION}; {REMEDY}")
    return Path(found)


def aiperf_load(program: Path, endpoint: Endpoint, model: str, timeout_s: float) -> Load:
    """A load for `run_cell`. Progress comes at each cell's end."""

    async def send(requests: Sequence[Request], level: int, advance: Callable[[], None]) -> list[Reply]:
        with tempfile.TemporaryDirectory(prefix="k25serve-aiperf-") as name:
            folder = Path(name)
            bodies = folder / "bodies.jsonl"
            bodies.write_bytes(b"".join(request.body + b"\n" for request in requests))
            command = _command(program, endpoint, model, timeout_s, bodies, folder / "out", level, len(requests))
            await _run(command, folder / "log")
            replies = read_raw(folder / "out" / "profile_export_raw.jsonl", requests)
        for _ in requests:
            advance()
        return replies

    return send


def read_raw(path: Path, requests: Sequence[Request]) -> list[Reply]:
    """AIPerf's raw export (0.13, `--export-level raw`) as replies in the requests' order.

    A request that it has no record of gets a reply that says so. Raises UserError where the file is not such an export.
    """
    try:
        found = dict(_reply(orjson.loads(line)) for line in path.read_bytes().splitlines())
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a raw export of AIPerf {VERSION} ({type(error).__name__}: {error})") from None
    start = min((reply.sent for reply in found.values()), default=0.0)
    lost = Reply(start, 0.0, ended=start, error="AIPerf has no record of this request")
    return [found.get(_key(orjson.loads(request.body)), lost) for request in requests]


def _reply(line: dict[str, Any]) -> tuple[bytes, Reply]:
    told, start = line["metadata"], line["start_perf_ns"] * NS
    reads = [
        (response["perf_ns"] * NS, b"".join(_frame(packet) for packet in response["packets"]))
        for response in line.get("responses") or ()
    ]
    wall_sent, wall_ended = told["request_start_ns"] * NS, told["request_end_ns"] * NS
    error = line.get("error")
    reply = Reply(
        sent=start,
        wall_sent=wall_sent,
        status=line.get("status"),
        reads=reads,
        ended=max(start, reads[-1][0] if reads else start + wall_ended - wall_sent),
        wall_ended=wall_ended,
        error="" if not error else f"AIPerf: {error}"[:SHOWN],
    )
    return _key(line["payload"]), reply


def _frame(packet: dict[str, Any]) -> bytes:
    return f"{packet['name']}: {packet['value']}\n\n".encode()


def _key(body: dict[str, Any]) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def _command(
    program: Path, endpoint: Endpoint, model: str, timeout_s: float, bodies: Path, out: Path, level: int, count: int
) -> list[str]:
    """The tokenizer counts nothing (the engine's usage does); AIPerf wants one that loads without a network."""
    options = {
        "--model": model,
        "--url": endpoint.root,
        "--endpoint-type": "chat",
        "--request-timeout-seconds": str(timeout_s),
        "--concurrency": str(min(level, count)),
        "--request-count": str(count),
        "--input-file": str(bodies),
        "--custom-dataset-type": "raw-payload",
        "--dataset-sampling-strategy": "sequential",
        "--tokenizer": str(TARGET),
        "--output-artifact-dir": str(out),
        "--export-level": "raw",
        "--ui": "none",
    }
    flags = ["--streaming", "--use-server-token-count", "--no-gpu-telemetry", "--no-server-metrics"]
    return [str(program), "profile", *flags, *(word for pair in options.items() for word in pair)]


async def _run(command: list[str], log: Path) -> None:
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=asyncio.subprocess.STDOUT
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
    if code:
        raise UserError(f"--runner aiperf: it ended with {code}: {_last_lines(log)}")


def _last_lines(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])[-SHOWN:]
