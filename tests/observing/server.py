"""A real Prometheus on files of a test."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

START_S = 20


def require(program: str) -> str:
    """Path of a program of Debian's package prometheus; skips the test without it, in CI fails."""
    path = shutil.which(program)
    if path is None:
        missing = f"{program} is missing: apt-get install prometheus"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return path


@dataclass(frozen=True)
class Prometheus:
    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of the HTTP API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}") as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[float]:
        """Now, NaN left out."""
        result = self.get("query", query=expression)["result"]
        values = [float(series["value"][1]) for series in result]
        return [value for value in values if value == value]

    def alert_state(self, name: str) -> str:
        """inactive, pending or firing."""
        (state,) = (
            rule["state"]
            for group in self.get("rules", type="alert")["groups"]
            for rule in group["rules"]
            if rule["name"] == name
        )
        return str(state)


def until(holds: Callable[[], object], seconds: float, what: Callable[[], object] = lambda: "") -> None:
    """Poll until `holds()`. what: more to say in the failure."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not so after {seconds} s: {what()}"
        time.sleep(0.1)


@contextmanager
def running(config: Path, data: Path) -> Iterator[Prometheus]:
    """Prometheus on a free port, until the block ends."""
    program = require("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = data.with_suffix(".log")
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address={address}",
                "--log.level=warn",
            ],
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return bool(urllib.request.urlopen(f"http://{address}/-/ready").status == 200)
            except OSError:
                return False

        until(ready, START_S, log.read_text)
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(START_S)
