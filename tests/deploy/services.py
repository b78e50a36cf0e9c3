"""Our units under the real systemd, the stub in the engine's place."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from deploy.box import Box, booted
from typer.testing import CliRunner

from k25serve.deploy.commands import app
from k25serve.server.engine.holders import command_of

STUB = Path(__file__).parent / "stub" / "k25serve"
PROFILE = "cpu-tiny-nospec"
ENGINE, GATEWAY = f"k25serve-engine@{PROFILE}.service", "k25serve-gateway.service"
MODEL = "kimi-k2.5-tiny"
PROCESSES = 11  # launcher, guardian, the stub's main process and its 8 children
# Where a test runs, not what the units say: the interpreter, an output without a journal, shorter pauses.
HERE = """[Service]
Environment=K25_PYTHON={python}
StandardOutput=append:{log}
StandardError=append:{log}
RestartSec=0.2
"""
# A checkout under /tmp is not there for a unit that has a /tmp of its own.
if Path(__file__).is_relative_to("/tmp"):
    HERE += "PrivateTmp=no\n"


@dataclass(frozen=True)
class Services:
    """A box in which the units of a profile lie."""

    box: Box
    engine_port: int
    gateway_port: int
    log: Path
    program: Path = STUB

    def ask(self, port: int) -> httpx.Response:
        """One token."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        return httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, timeout=10)

    def settings(self, *more: str) -> tuple[str, ...]:
        """Of a profile that runs here."""
        ports = (f"engine.port={self.engine_port}", f"gateway.port={self.gateway_port}")
        return tuple(word for item in (*ports, "engine.stop_timeout_s=2", *more) for word in ("--set", item))

    def install(self, *settings: str, profile: str = PROFILE) -> None:
        """Render a profile's units and have systemd read them."""
        words = ("systemd", "--profile", profile, "--output", str(self.box.units), "--user", "root")
        done = CliRunner().invoke(app, [*words, "--executable", str(self.program), *self.settings(*settings)])
        assert done.exit_code == 0, (done.output, done.exception)
        for unit in ("k25serve-engine@.service", GATEWAY):
            self.here(unit)

    def here(self, unit: str) -> None:
        """Add what a unit needs in a test."""
        self.box.write(f"{unit}.d/zz-test.conf", HERE.format(python=sys.executable, log=self.log))

    def wait_for_any(self) -> list[int]:
        """The engine's processes, once there is one."""
        deadline = time.monotonic() + 30
        while not (found := self.box.processes(ENGINE)):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        return sorted(found)

    def wait_for_tree(self, count: int = PROCESSES) -> list[int]:
        deadline = time.monotonic() + 30
        while len(found := self.box.processes(ENGINE)) != count:
            told = [command_of(pid) for pid in found]
            assert time.monotonic() < deadline, f"{len(found)} processes, not {count}: {told}\n{self.log.read_text()}"
            time.sleep(0.05)
        return sorted(found)


@contextmanager
def services(folder: Path, ports: tuple[int, int], program: Path = STUB) -> Iterator[Services]:
    """Boot systemd; nothing is installed yet. program: the k25serve that the units run."""
    units = folder / "units"
    units.mkdir()
    with booted(units) as box:
        yield Services(box, *ports, folder / "output.txt", program)
