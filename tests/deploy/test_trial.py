"""A profile in the place of an adopted unit: back by one command, or by itself, whatever is killed on the way."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.box import Box
from deploy.services import ENGINE, GATEWAY, MODEL, PROFILE, STUB, Services, services
from deploy.test_services import alive, free_ports

from k25serve.deploy.trial.adopt import units_of
from k25serve.deploy.trial.estimate import minutes_back
from k25serve.deploy.trial.state import TRIAL_UNIT
from k25serve.deploy.trial.systemctl import Systemctl
from k25serve.server.config import load_profile

PRODUCTION = "vllm.service"
VLLM = """# Somebody else's unit.
[Service]
ExecStart={python} -P -m k25serve.bench.engine_sim --port {port} --dialect vllm --served-model-name {model}
"""
WAIT_S = 60


class Stage(Services):
    """A gateway with two arms, an adopted unit behind one of them."""

    def trying(self, *settings: str, user: str = "root", check: bool = True) -> str:
        words = ("deploy", "try", "--profile", PROFILE, "--units", str(self.box.units), "--user", user)
        program = ("--production-unit", PRODUCTION, "--executable", str(STUB))
        return self.k25serve(*words, *program, *self.settings(*settings), check=check)

    def k25serve(self, *words: str, check: bool = True) -> str:
        # A record of this user's own loads would stand in for the estimate.
        here = (f"K25_PYTHON={sys.executable}", f"XDG_STATE_HOME={self.box.units.parent / 'state'}")
        return self.box.run("env", *here, str(STUB), *words, check=check)

    def served_by(self, arm: str) -> None:
        """Wait until clients, who changed nothing, are served by `arm`."""
        deadline = time.monotonic() + WAIT_S
        while (answer := self.ask(self.gateway_port)).headers.get("x-k25serve-arm") != arm or answer.status_code != 200:
            assert time.monotonic() < deadline, (answer.status_code, dict(answer.headers))
            time.sleep(0.1)

    def unchanged(self) -> None:
        """Production serves again under its own unit, which nobody edited; nothing of the trial is left."""
        self.box.until(PRODUCTION, "ActiveState", "active")
        self.box.until(ENGINE, "ActiveState", "inactive")
        assert self.box.processes(ENGINE) == []
        assert (self.box.units / PRODUCTION).read_text().startswith("# Somebody else's unit.")
        assert not (self.box.units / f"{PRODUCTION}.d").exists()
        self.served_by("vllm")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    vllm_port, _ = free_ports()
    with services(tmp_path, free_ports()) as made:
        found = Stage(made.box, made.engine_port, made.gateway_port, made.log)
        arms = f"[{{name: sglang}}, {{name: vllm, dialect: vllm, url: 'http://127.0.0.1:{vllm_port}'}}]"
        found.install(f"gateway.arms={arms}")
        (found.box.units / f"{ENGINE}.d" / "profile.conf").unlink()  # the trial brings its own
        found.here(TRIAL_UNIT)
        found.box.write(PRODUCTION, VLLM.format(python=sys.executable, port=vllm_port, model=MODEL))
        for unit in PRODUCTION, GATEWAY:
            found.box.systemctl("start", unit)
        found.served_by("vllm")
        yield found


def test_a_good_profile_serves_until_rollback(stage: Stage) -> None:
    gateway = stage.box.show(GATEWAY, "InvocationID")
    said = stage.trying()
    assert f"trial: {PROFILE} takes the place of {PRODUCTION}" in said
    assert "going back will take 1 minute to 1 minute: 0.0 GB at 0.1 to 0.3 GB a second" in said
    assert f"trial: {PROFILE} serves. End it with: k25serve deploy rollback" in said
    assert stage.box.show(PRODUCTION, "ActiveState") == "inactive"
    stage.served_by("sglang")
    assert "a trial is on" in stage.trying(check=False)
    assert f"rolled back: {PRODUCTION} starts" in stage.k25serve("deploy", "rollback")
    stage.unchanged()
    assert stage.box.show(GATEWAY, "InvocationID") == gateway
    assert "no trial is on; the last one was rolled back: asked for" in stage.k25serve("deploy", "rollback")


def test_what_never_gets_ready_rolls_back_by_itself(stage: Stage) -> None:
    said = stage.trying("engine.extra_args=[--hang]", "engine.ready_timeout_s=1", check=False)
    assert (
        f"error: {PROFILE} was rolled back: the engine was still importing SGLang after engine.ready_timeout_s" in said
    )
    stage.unchanged()


def test_an_engine_that_the_second_request_kills_rolls_back(stage: Stage) -> None:
    """G01: starts without a fault, dies of a kernel that only a shared prefix runs."""
    said = stage.trying("engine.extra_args=[--die-of=Second]", check=False)
    assert f"error: {PROFILE} was rolled back: the engine was ready, but failed on a second one with the same" in said
    stage.unchanged()


def test_nothing_stops_where_the_profile_cannot_work(stage: Stage) -> None:
    run = stage.box.show(PRODUCTION, "InvocationID")
    assert "no such folder" in stage.trying("target=/nonexistent", check=False)
    assert "is not active" in stage.k25serve(
        *("deploy", "try", "-p", PROFILE, "--production-unit", "nginx", "--executable", str(STUB)), check=False
    )
    assert "error: --user nobody-here: no such account; make it" in stage.trying(user="nobody-here", check=False)
    assert "error: --user nobody: cannot run" in stage.trying(user="nobody", check=False)
    assert stage.box.show(PRODUCTION, "InvocationID") == run
    assert not stage.box.is_file("/run/k25serve/trial.json")


@pytest.mark.full
@pytest.mark.parametrize("victim", ["trial-start", "deploy try"])
def test_a_killed_controller_is_no_way_to_get_stuck(stage: Stage, victim: str) -> None:
    """systemd holds the trial: its own process killed means back; the user's command killed changes nothing."""
    stage.box.run(
        *("systemd-run", "--unit=user", "--setenv", f"K25_PYTHON={sys.executable}", str(STUB), "deploy", "try"),
        *("--profile", PROFILE, "--units", str(stage.box.units), "--user", "root", "--executable", str(STUB)),
        *("--production-unit", PRODUCTION, *stage.settings("engine.extra_args=[--hang]")),
    )
    tree = stage.wait_for_tree()
    unit = TRIAL_UNIT if victim == "trial-start" else "user.service"
    os.kill(min(stage.box.processes(unit)), signal.SIGKILL)
    if victim == "deploy try":
        stage.box.until("user.service", "ActiveState", "failed")
        assert stage.box.show(TRIAL_UNIT, "ActiveState") == "activating"
        stage.k25serve("deploy", "rollback")
    stage.unchanged()
    assert alive(tree) == []


@pytest.mark.full
def test_an_engine_that_fails_for_good_after_it_served_rolls_back(stage: Stage) -> None:
    stage.trying()
    for _ in range(4):
        os.kill(stage.wait_for_tree()[0], signal.SIGKILL)
        stage.box.until(ENGINE, "SubState", "start", "running", "dead", "failed", seconds=WAIT_S)
        if stage.box.show(PRODUCTION, "ActiveState") == "active":
            break
        deadline = time.monotonic() + WAIT_S
        while stage.box.show(ENGINE, "ActiveState") not in ("active", "inactive", "failed"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    stage.unchanged()


@pytest.mark.full
def test_a_trial_whose_end_was_killed_is_finished_by_rollback(stage: Stage) -> None:
    stage.trying()
    stage.box.write(f"{TRIAL_UNIT}.d/lost.conf", "[Service]\nExecStopPost=\nExecStopPost=/bin/false\n")
    stage.box.systemctl("stop", TRIAL_UNIT, check=False)
    assert stage.box.show(PRODUCTION, "ActiveState") == "inactive"
    assert f"rolled back: {PRODUCTION} starts" in stage.k25serve("deploy", "rollback")
    stage.unchanged()


def test_units_of_processes(tmp_path: Path) -> None:
    groups = {
        "1": "0::/system.slice/vllm.service",
        "2": "0::/system.slice/system-k25.slice/k25serve-engine@a.b-c.service/child",
        "3": "0::/user.slice/user-0.slice/user@0.service/app.slice/mine.service",
        "4": "1:name=systemd:/system.slice/vllm.service\n0::/",
        "5": "0::/system.slice/docker-1.scope",
    }
    for pid, text in groups.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(text + "\n")
    assert units_of([1, 4], tmp_path) == {"vllm.service"}
    assert units_of([1, 2, 3, 5, 6], tmp_path) == {"vllm.service", "k25serve-engine@a.b-c.service"}


def systemctl_that_says(folder: Path, left: str, entered: str) -> Systemctl:
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\ncase "$*" in *Inactive*) echo {left} ;; *) echo {entered} ;; esac\n')
    program.chmod(0o755)
    return Systemctl(str(program))


def test_minutes_back(tmp_path: Path) -> None:
    target = load_profile("cpu-tiny").target
    told = systemctl_that_says(tmp_path, "1000000", "2401000000")
    assert (
        minutes_back("vllm.service", target, told, ()) == "about 40 minutes: vllm.service's last start took that long"
    )
    size = sum(file.stat().st_size for file in Path(target).glob("*.safetensors"))
    records = [tmp_path / f"{n}.load.json" for n in range(3)]
    for record, text in zip(records, (f'{{"target_bytes": {size}, "seconds": 3540}}', "{", "[]"), strict=True):
        record.write_text(text)
    simple = systemctl_that_says(tmp_path, "5", "5")
    assert minutes_back("vllm.service", target, simple, records).startswith(
        "about 59 minutes: the last load of as many"
    )


def test_minutes_back_by_size(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with (model / "a.safetensors").open("wb") as file:
        file.truncate(547 * 10**9)
    simple = systemctl_that_says(tmp_path, "", "")
    assert minutes_back("v", str(model), simple, ()) == "30 minutes to 90 minutes: 547.0 GB at 0.1 to 0.3 GB a second"


@pytest.mark.full
def test_box_is_apart(stage: Stage) -> None:
    """The box sees its own units only: what is tested here cannot touch this machine's services."""
    assert isinstance(stage.box, Box)
    loaded = stage.box.systemctl("list-units", "--type=service", "--no-legend", "--plain").split("\n")
    assert {line.split()[0] for line in loaded} == {GATEWAY, PRODUCTION}
