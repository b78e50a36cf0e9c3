"""The engine's and the gateway's unit under the real systemd: whatever is killed, a ready service, no orphan (F01)."""

import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.services import ENGINE, GATEWAY, Services, services

READY_S = 60


def free_ports() -> tuple[int, int]:
    """Two free ports; the one after the first is free too."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as other:
            port = first.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port, other.getsockname()[1]


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path, free_ports()) as found:
        found.install("engine.ready_timeout_s=40")
        yield found


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("kills", [pytest.param(4), pytest.param(20, marks=pytest.mark.full)])
def test_sigkill_of_each_process_in_turn(installed: Services, kills: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moment = random.Random(seed)
    box = installed.box
    box.systemctl("start", ENGINE)
    loading = False
    for kill in range(kills):
        # Every process has its turn; the four of the short run are launcher, guardian, main process and a child. While
        # it loads, one of those that there are.
        tree = installed.wait_for_any() if loading else installed.wait_for_tree()
        victim = tree[kill % len(tree)]
        print(f"kill {kill}: process {kill % len(tree)} of {len(tree)}, {'loading' if loading else 'serving'}")
        run = box.show(ENGINE, "InvocationID")
        # A kill is an incident of its own: an operator's start limit counts them over hours.
        box.systemctl("reset-failed", ENGINE)
        os.kill(victim, signal.SIGKILL)
        deadline = time.monotonic() + READY_S
        while box.show(ENGINE, "InvocationID") in (run, ""):
            assert time.monotonic() < deadline, box.systemctl("status", ENGINE, check=False)
            time.sleep(0.05)
        assert alive(tree) == [], f"kill {kill}, of {victim}"
        loading = moment.random() < 0.5
        if loading:
            time.sleep(moment.uniform(0, 2))
            continue
        box.until(ENGINE, "ActiveState", "active", "failed", seconds=READY_S)
        assert box.show(ENGINE, "ActiveState") == "active", installed.log.read_text()[-2000:]
        assert installed.ask(installed.engine_port).status_code == 200
    box.until(ENGINE, "ActiveState", "active", seconds=READY_S)
    last = installed.wait_for_tree()
    assert installed.ask(installed.engine_port).status_code == 200
    box.systemctl("stop", ENGINE)
    assert box.show(ENGINE, "Result") == "success"
    assert alive(last) == []
    for port in (installed.engine_port, installed.engine_port + 1):
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_bad_flag_ends_in_failed_with_its_cause(tmp_path: Path) -> None:
    with services(tmp_path, free_ports()) as found:
        found.install("engine.extra_args=[--no-such-flag]")
        found.box.systemctl("start", ENGINE, check=False)
        found.box.until(ENGINE, "ActiveState", "failed", seconds=READY_S)
        assert found.box.show(ENGINE, "Result") == "exit-code"
        said = found.log.read_text()
        assert said.count("error: unrecognized arguments: --no-such-flag; its log is") == 4
        told = found.box.show(ENGINE, "StatusText")
        assert told.startswith("the engine ended with exit code 2: launch_server.py: error: unrecognized arguments: ")
        assert found.box.processes(ENGINE) == []


def test_a_mistake_in_the_profile_is_not_tried_again(installed: Services) -> None:
    """It passed when the unit was made; then the model's folder went away."""
    conf = installed.box.units / f"{ENGINE}.d" / "profile.conf"
    installed.box.write(f"{ENGINE}.d/profile.conf", conf.read_text().replace("/models/target", "/models/gone"))
    installed.box.systemctl("start", ENGINE, check=False)
    installed.box.until(ENGINE, "ActiveState", "failed")
    assert installed.box.show(ENGINE, "NRestarts") == "0"
    assert "/models/gone: no such folder" in installed.box.show(ENGINE, "StatusText")


@pytest.mark.full
def test_a_load_that_never_ends_is_ended(tmp_path: Path) -> None:
    with services(tmp_path, free_ports()) as found:
        found.install("engine.extra_args=[--hang]", "engine.ready_timeout_s=1")
        found.box.systemctl("start", ENGINE, check=False)
        tree = found.box.processes(ENGINE)
        found.box.systemctl("stop", ENGINE)
        assert "after engine.ready_timeout_s = 1 s" in found.log.read_text()
        assert alive(tree) == []


def test_the_gateway_outlives_its_engine(installed: Services) -> None:
    """F03: up at once; 503 with Retry-After while there is no engine; answers once there is one, after a crash too."""
    box = installed.box
    box.systemctl("start", GATEWAY)
    run = box.show(GATEWAY, "InvocationID")

    def refused() -> None:
        started = time.monotonic()
        answer = installed.ask(installed.gateway_port)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert time.monotonic() - started < 1

    def answers() -> None:
        deadline = time.monotonic() + READY_S
        while installed.ask(installed.gateway_port).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    refused()
    box.systemctl("start", ENGINE)
    answers()
    os.kill(installed.wait_for_tree()[0], signal.SIGKILL)
    deadline = time.monotonic() + READY_S
    while installed.ask(installed.gateway_port).status_code == 200:
        assert time.monotonic() < deadline
    refused()
    answers()
    box.systemctl("stop", ENGINE)
    assert box.show(GATEWAY, "InvocationID") == run
    assert box.show(GATEWAY, "ActiveState") == "active"
    box.systemctl("stop", GATEWAY)
    assert box.show(GATEWAY, "Result") == "success"
