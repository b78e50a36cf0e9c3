"""Ranks as processes in a time box: whatever they do, the run ends, and nothing of it is left."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import orjson

from k25serve.bench.comm.messages import PIPE
from k25serve.bench.comm.report import RankEnd

KILL_S = 10.0  # a process that is still there so long after SIGKILL hangs in the driver
GRACE_S = 5.0  # for the other ranks, once one has failed
LOG_LINES = 12
POLL_S = 0.5


@dataclass
class _Rank:
    rank: int
    process: subprocess.Popen[bytes]
    pipe: int
    log: IO[bytes]
    stage: str = "not started"
    partial: bytes = b""
    messages: list[dict[str, Any]] = field(default_factory=list)
    unkillable: bool = False

    def take(self, data: bytes) -> None:
        *lines, self.partial = (self.partial + data).split(b"\n")
        for line in lines:
            message = orjson.loads(line)
            self.stage = message.pop("stage", self.stage)
            if message:
                self.messages.append(message)


@dataclass(frozen=True)
class Ended:
    """A run's end: each rank's, what they told (without stages), and how long it took."""

    ends: tuple[RankEnd, ...]
    messages: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every rank came to its end by itself."""
        return all(end.outcome == "done" for end in self.ends)


def run_ranks(command: Sequence[str], ranks: int, environment: Mapping[str, str], limit_s: float) -> Ended:
    """Start `command` once for each rank and wait for all, at most `limit_s` seconds.

    A rank finds RANK, WORLD_SIZE, LOCAL_RANK and COMM_STORE (a file to meet at) in its environment. When one fails, or
    the time is over, all process groups are killed.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="k25serve-comm-") as folder:
        started: list[_Rank] = []
        try:
            for rank in range(ranks):
                started.append(_start(command, rank, ranks, environment, Path(folder)))
            reason = _wait(started, began + limit_s)
        finally:
            _kill(started)
        ends = tuple(_end(one, reason) for one in started)
        for one in started:
            one.log.close()
    messages = tuple(message for one in started for message in one.messages)
    return Ended(ends, messages, time.monotonic() - began)


def _start(command: Sequence[str], rank: int, ranks: int, environment: Mapping[str, str], folder: Path) -> _Rank:
    read_end, write_end = os.pipe()
    log = (folder / f"rank-{rank}.log").open("w+b")
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                **environment,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "COMM_STORE": str(folder / "store"),
                PIPE: str(write_end),
            },
            pass_fds=(write_end,),
            start_new_session=True,
        )
    finally:
        os.close(write_end)
    return _Rank(rank, process, read_end, log)


def _wait(ranks: Sequence[_Rank], deadline: float) -> Literal["", "failed", "hung"]:
    """Read until all pipes are closed. Why it stopped: "" all ended, "failed" one did, "hung" the time was over."""
    with selectors.DefaultSelector() as selector:
        for one in ranks:
            selector.register(one.pipe, selectors.EVENT_READ, one)
        failed = False
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return "failed" if failed else "hung"
            for key, _ in selector.select(min(left, POLL_S)):
                data = os.read(key.fd, 1 << 16)
                if data:
                    key.data.take(data)
                else:
                    selector.unregister(key.fd)
            if not failed and any(one.process.poll() not in (None, 0) for one in ranks):
                failed, deadline = True, min(deadline, time.monotonic() + GRACE_S)
    while any(one.process.poll() is None for one in ranks) and time.monotonic() < deadline:
        time.sleep(0.01)
    if any(one.process.poll() is None for one in ranks):
        return "hung"
    return "failed" if any(one.process.returncode for one in ranks) else ""


def _kill(ranks: Sequence[_Rank]) -> None:
    for one in ranks:
        os.close(one.pipe)
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
    deadline = time.monotonic() + KILL_S
    for one in ranks:
        try:
            one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.unkillable = True


def _end(one: _Rank, reason: Literal["", "failed", "hung"]) -> RankEnd:
    code = one.process.returncode
    outcome: Literal["done", "failed", "hung", "ended with the others"]
    if code == 0:
        outcome = "done"
    elif code is None or code == -signal.SIGKILL:
        outcome = "hung" if reason == "hung" else "ended with the others"
    else:
        outcome = "failed"
    lines: list[str] = []
    if outcome != "done":
        one.log.seek(0)
        lines = one.log.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    return RankEnd(
        rank=one.rank, stage=one.stage, outcome=outcome, exit_code=code, unkillable=one.unkillable, log=tuple(lines)
    )
