"""The engine of a run: started through the product's own launcher, always stopped, and found again after a kill."""

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.options import EngineOptions, GateOptions
from k25serve.drafters.training.run.processes import Process, start, tree

K25SERVE = (sys.executable, "-P", "-m", "k25serve.server.main")
READY = "engine: ready after"
ERROR = "k25serve: error: "
STOP_S = 180.0  # the launcher's own limits come first: the profile's stop_timeout_s, then SIGKILL
POLL_S = 0.2
# Each prompt is computed whole, by the model's own forward.
WHOLE = ("--disable-radix-cache", "--chunked-prefill-size", "-1")
WHOLE_ON_GPU = "--disable-prefill-cuda-graph"


@dataclass(frozen=True)
class Launched:
    """A running engine."""

    url: str
    process: "subprocess.Popen[bytes]"


class Engines:
    """Starts one engine at a time for the run in `folder`. say: one line to the user."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder.temporary, say
        self._noted = folder.temporary / "engine.json"

    def end_left_over(self) -> None:
        """End what an engine of a killed run left behind, by pid and start time."""
        if not self._noted.is_file():
            return
        noted = json.loads(self._noted.read_bytes())
        left = [process for process in (Process(**one) for one in noted) if process.alive]
        if left:
            self._say(f"an engine of a killed run still stops (pid {left[0].pid}): waiting for it")
        for process in left:
            process.end(STOP_S)
        self._noted.unlink()

    def check(self, engine: EngineOptions, gate: GateOptions | None) -> None:
        """Raises TrainingError where a profile, or what is set on it, is wrong."""
        planned(engine.profile, [*engine.set, "speculation={algorithm: none}"])
        if gate is not None:
            planned(gate.profile, gate.set)

    @contextlib.contextmanager
    def capturing(self, options: EngineOptions, target: Path) -> Iterator[tuple[str, Path]]:
        """URL and staging folder of an engine that captures."""
        staging = self._staging(options)
        sets = [*options.set, f"target={_text(str(target))}", "speculation={algorithm: none}", "gate.policy='off'"]
        extra = [*_extra_args(options.profile, sets), *options.extra_args]
        extra += [word for word in WHOLE if word not in extra]
        words = planned(options.profile, sets)
        if words[words.index("--device") + 1] == "cuda" and WHOLE_ON_GPU not in extra:
            extra.append(WHOLE_ON_GPU)
        layers = ",".join(map(str, options.layers))
        sets += [
            f"engine.extra_args={json.dumps(extra)}",
            f"patches.capture_states.directory={_text(str(staging))}",
            f"patches.capture_states.layers={_text(layers)}",
        ]
        try:
            with self._running("capture", options.profile, sets, options.port) as url:
                yield url, staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    @contextlib.contextmanager
    def serving(self, name: str, options: GateOptions, target: Path, drafter: Path) -> Iterator[str]:
        """URL of an engine that serves with `drafter`."""
        sets = [
            *options.set,
            f"target={_text(str(target))}",
            f"speculation.drafter={_text(str(drafter))}",
            "gate.policy='off'",
        ]
        with self._running(name, options.profile, sets, None) as url:
            yield url

    def _staging(self, options: EngineOptions) -> Path:
        """An empty folder of this run alone."""
        own = f"k25serve-{self._folder.stat().st_ino}-{self._folder.parent.name}"
        staging = self._folder / "states" if options.staging is None else options.staging.absolute() / own
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        return staging

    @contextlib.contextmanager
    def _running(self, name: str, profile: str, sets: Sequence[str], port: int | None) -> Iterator[str]:
        self.end_left_over()
        port = port or _free_port()
        options = [word for one in (*sets, f"engine.port={port}") for word in ("--set", one)]
        command = [*K25SERVE, "engine", "--profile", profile, *options]
        log, state = self._folder / f"{name}.log", self._folder / "state"
        begun = time.monotonic()
        with log.open("wb") as output:
            process = start(command, {"XDG_STATE_HOME": str(state), "COLUMNS": "200"}, output)
        try:
            self._note(process.pid)
            self._say(f"engine: {profile} starts on port {port}, log {log}")
            _wait_ready(process, log, profile)
            self._note(process.pid)
            self._say(f"engine: ready after {time.monotonic() - begun:.0f} s")
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(process)
            self._noted.unlink(missing_ok=True)

    def _note(self, pid: int) -> None:
        write_whole(self._noted, json.dumps([asdict(process) for process in tree(pid)]).encode())


def stop(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM to the launcher, which stops its engine in order; then all of it is gone."""
    everything = tree(process.pid)
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        for one in everything:
            if one.alive:
                one.end(1.0)
        process.poll()


def planned(profile: str, sets: Sequence[str]) -> list[str]:
    """SGLang's command line for a profile, found wrong before anything is started. Raises TrainingError."""
    options = [word for one in sets for word in ("--set", one)]
    command = [*K25SERVE, "engine", "--dry-run", "--profile", profile, *options]
    environment = {**os.environ, "COLUMNS": "1000"}
    told = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if told.returncode:
        lines = told.stderr.strip().splitlines() or [f"exit code {told.returncode}"]
        raise TrainingError(f"engine.profile {profile}: {lines[-1].removeprefix(ERROR)}")
    return shlex.split(told.stdout.replace("\\\n", " "))


def _extra_args(profile: str, sets: Sequence[str]) -> list[str]:
    """The profile's own engine.extra_args: what its command line has at the end, which it lacks without them."""
    without = planned(profile, [*sets, "engine.extra_args=[]"])
    return planned(profile, sets)[len(without) :]


def _wait_ready(process: "subprocess.Popen[bytes]", log: Path, profile: str) -> None:
    while READY not in (text := log.read_text(errors="replace")):
        if process.poll() is not None:
            lines = [line for line in text.splitlines() if line.strip()]
            told = next((line for line in reversed(lines) if line.startswith(ERROR)), lines[-1] if lines else "no word")
            raise TrainingError(f"engine.profile {profile}: did not start: {told.removeprefix(ERROR)}; its log: {log}")
        time.sleep(POLL_S)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _text(value: str) -> str:
    """Text to YAML, whatever is in it."""
    return json.dumps(value, ensure_ascii=False)
