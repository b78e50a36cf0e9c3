"""Runs the gateways one after another, in rounds whose order is rotated."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import uvloop

from k25serve.bench.gateway.arms import Arm, NotInstalledError, environment, variables
from k25serve.bench.gateway.bars import DIRECT, Rounds
from k25serve.bench.gateway.client import Client
from k25serve.bench.gateway.directive import Directive
from k25serve.bench.gateway.load import Visit
from k25serve.bench.gateway.process import (
    FailedError,
    cpu_seconds,
    machine_cpu_seconds,
    running,
    wait_for_port,
)
from k25serve.bench.gateway.requests import plain

_VISIT_S = 300.0


class Bench:
    """One run. `say` is told of each step. Gateways use `port`, the engine `port` + 50.

    With two CPUs or more the gateway has the first to itself; engine and client share the second.
    """

    def __init__(self, cache: Path, port: int, say: Callable[[str], None]) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        self._gateway_cpus, self._load_cpus = {cpus[0]}, {cpus[1 % len(cpus)]}
        self._cache, self._port, self._engine_port, self._say = cache, port, port + 50, say
        self.loads: list[float] = []
        """The machine's load average before each visit: of what else it had to do."""
        self.missing: dict[str, str] = {}

    def run(self, arms: Sequence[Arm], count: int, options: dict[str, Any], *, many: bool) -> Rounds:
        """`count` rounds of direct and every arm. An arm that can't be installed or fails is in `missing`, with why."""
        usable = [arm for arm in arms if self._install(arm)]
        entrants: list[Arm | None] = [None, *usable]
        rounds: Rounds = {DIRECT: [], **{arm.name: [] for arm in usable}}
        with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
            for number in range(count):
                start = number % len(entrants)
                for entrant in entrants[start:] + entrants[:start]:
                    name = DIRECT if entrant is None else entrant.name
                    if name in self.missing:
                        continue
                    self._say(f"round {number + 1} of {count}: {name}")
                    last = number == count - 1
                    more = {"behave": number == 0, "requests": entrant.many if entrant and last and many else 0}
                    try:
                        rounds[name].append(self._visit(entrant, Path(folder), options | more))
                    except FailedError as error:
                        if entrant is None:
                            raise
                        self.missing[name] = str(error)
        return {name: visits for name, visits in rounds.items() if name not in self.missing}

    def _install(self, arm: Arm) -> bool:
        self._say(f"environment of {arm.name}")
        try:
            environment(arm, self._cache)
        except NotInstalledError as error:
            self.missing[arm.name] = f"could not be installed: {error}"
        return arm.name not in self.missing

    def _visit(self, arm: Arm | None, files: Path, options: dict[str, Any]) -> dict[str, Any]:
        """One gateway, fresh, with an engine of its own."""
        self.loads.append(os.getloadavg()[0])
        engine = f"http://127.0.0.1:{self._engine_port}"
        module = [sys.executable, "-P", "-m", "k25serve.bench.gateway.engine", str(self._engine_port)]
        with ExitStack() as stack:
            log = files / "engine.log"
            engine_pid = stack.enter_context(running(module, self._load_cpus, log, os.environ))
            wait_for_port(self._engine_port, engine_pid, 10.0, log)
            if arm is None:
                return self._measure(Visit(url=engine, engine=engine, **options), [engine_pid])
            log = files / f"{arm.name}.log"
            command = arm.command(environment(arm, self._cache), self._port, self._engine_port, files)
            began = time.monotonic()
            pid = stack.enter_context(running(command, self._gateway_cpus, log, variables(arm, self._engine_port)))
            wait_for_port(self._port, pid, arm.start_s, log)
            url = f"http://127.0.0.1:{self._port}"
            self._wait_for_answer(url, arm, log)
            ready = time.monotonic() - began
            visit = Visit(url=url, engine=engine, pid=pid, authorization=arm.authorization, cap_s=arm.cap_s, **options)
            return {"start_s": ready, **self._measure(visit, [engine_pid, pid])}

    def _wait_for_answer(self, url: str, arm: Arm, log: Path) -> None:
        """A router listens before it has found its worker."""

        async def ask() -> int:
            client = await Client.connect(url, arm.authorization)
            status = (await client.ask(plain(Directive(), stream=False))).status
            client.leave()
            return status

        until = time.monotonic() + arm.start_s
        status = 0
        while time.monotonic() < until:
            try:
                status = uvloop.run(ask())
            except OSError:
                status = 0
            if status == 200:
                return
            time.sleep(0.05)
        raise FailedError(f"answers with {status}; its log ends with: {log.read_text(errors='replace')[-500:]}")

    def _measure(self, visit: Visit, pids: Sequence[int]) -> dict[str, Any]:
        """What the load saw, and the CPUs that were busy with anything but it and the processes `pids`."""
        command = [sys.executable, "-P", "-m", "k25serve.bench.gateway.load", visit.model_dump_json()]
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._load_cpus)
        began, before = time.monotonic(), _others_seconds(pids)
        try:
            done = subprocess.run(command, capture_output=True, timeout=_VISIT_S)
        except subprocess.TimeoutExpired as error:
            raise FailedError(f"took more than {_VISIT_S:g} s") from error
        finally:
            os.sched_setaffinity(0, own)
        if done.returncode:
            raise FailedError(done.stderr.decode(errors="replace").strip()[-500:])
        found: dict[str, Any] = orjson.loads(done.stdout)
        others = (_others_seconds(pids) - before) / (time.monotonic() - began)
        return {**found, "others_cpus": max(0.0, others)}


def _others_seconds(pids: Sequence[int]) -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = sum(map(cpu_seconds, pids)) + ended.ru_utime + ended.ru_stime
    return machine_cpu_seconds() - ours
