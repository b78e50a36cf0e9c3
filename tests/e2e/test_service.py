"""The real engine as a service of the real systemd: a process killed, ready again, no orphan. Full tier."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from deploy.services import ENGINE, GATEWAY, Services, services
from deploy.test_services import alive, free_ports
from e2e.stack import COMMAND

from k25serve.server.engine.holders import command_of

pytestmark = [pytest.mark.engine, pytest.mark.full]
READY_S = 400


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("service"), free_ports(), program=COMMAND) as found:
        found.install("engine.stop_timeout_s=30")
        found.box.systemctl("start", GATEWAY)
        yield found


def ready(installed: Services) -> float:
    """Wait until clients are served; the seconds that it took."""
    started = time.monotonic()
    while True:
        try:
            if installed.ask(installed.gateway_port).status_code == 200:
                return time.monotonic() - started
        except httpx.TimeoutException:
            pass
        state = installed.box.show(ENGINE, "ActiveState")
        assert state in ("active", "activating"), installed.log.read_text()[-3000:]
        assert time.monotonic() - started < READY_S, installed.log.read_text()[-3000:]
        time.sleep(0.5)


@pytest.mark.parametrize("victim", ["sglang::scheduler", "k25serve.server.engine.guardian"])
def test_killed_and_ready_again(installed: Services, victim: str) -> None:
    box = installed.box
    if box.show(ENGINE, "ActiveState") == "inactive":
        box.systemctl("start", "--no-block", ENGINE)
    first = ready(installed)
    box.until(ENGINE, "ActiveState", "active")
    tree = box.processes(ENGINE)
    assert len(tree) >= 4
    pid = next(pid for pid in tree if victim in command_of(pid))
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while left := alive(tree):
        assert time.monotonic() < deadline, [command_of(one) for one in left]
        time.sleep(0.05)
    gone = time.monotonic() - deadline + 60
    again = ready(installed)
    print(
        f"{victim}: ready after {first:.0f} s; killed, all {len(tree)} gone after {gone:.1f} s, served in {again:.0f} s"
    )
    assert "weights" in installed.log.read_text()


def test_stop_leaves_nothing(installed: Services) -> None:
    """Last in this file."""
    tree = installed.box.processes(ENGINE)
    installed.box.systemctl("stop", ENGINE)
    assert installed.box.show(ENGINE, "Result") == "success"
    assert alive(tree) == []
    with socket.create_server(("127.0.0.1", installed.engine_port)):
        pass
    record = Path(f"/proc/{installed.box.pid}/root/var/lib/k25serve").glob("*.load.json")
    assert [path.read_text().startswith('{"seconds": ') for path in record] == [True]
    print(installed.box.run("systemctl", "status", "--no-pager", ENGINE, check=False))
