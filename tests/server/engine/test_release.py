"""What an engine left is killed, exactly that; what others hold is waited for, then named."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.stack import running

from k25serve.server.config import Profile, load_profile
from k25serve.server.engine import leftovers
from k25serve.server.engine.gpu_memory import Gpu, used_gpus
from k25serve.server.engine.holders import command_of, listener, writers
from k25serve.server.engine.leftovers import reap
from k25serve.server.engine.release import wait_released
from k25serve.server.engine.state import engine_state
from k25serve.server.errors import PreflightError, StillHeld


def wait_for_writers(log: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 10
    while len(found := writers([log])) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def test_reap_kills_writers_of_the_log_and_nobody_else(tmp_path: Path) -> None:
    """As an engine leaves them: a session of its own, SIGTERM ignored, the parent gone. A reader is no writer."""
    log = tmp_path / "log"
    with log.open("w") as output:
        subprocess.run(
            ["bash", "-c", "setsid bash -c \"trap '' TERM; sleep 300; true\" & sleep 300 2>&1 &"], stdout=output
        )
    with log.open() as reading, (tmp_path / "other").open("w") as other:
        bystanders = [
            subprocess.Popen(["sleep", "300"], stdin=reading, stdout=other, stderr=other),
            subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
        ]
    try:
        left = wait_for_writers(log, 3)
        assert reap([log]) == sorted(left)
        assert writers([log]) == []
        assert [bystander.poll() for bystander in bystanders] == [None, None]
    finally:
        for bystander in bystanders:
            bystander.kill()
            bystander.wait()


def test_reap_names_what_does_not_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        stuck = subprocess.Popen(["sleep", "301"], stdout=output)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(leftovers.os, "kill", lambda *_: None)
            with pytest.raises(StillHeld) as caught:
                reap([log], seconds=0.1)
        assert f"{stuck.pid} (sleep 301); see dmesg" in str(caught.value)
    finally:
        stuck.send_signal(signal.SIGKILL)
        stuck.wait()


def test_own_output_in_the_log_is_no_reason_to_die(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import sys; from pathlib import Path; from k25serve.server.engine.leftovers import reap; "
    code += "reap([Path(sys.argv[1])]); print('alive')"
    with log.open("w") as output:
        assert subprocess.run([sys.executable, "-P", "-c", code, str(log)], stdout=output).returncode == 0
    assert log.read_text() == "alive\n"


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return load_profile("cpu-tiny", ("engine.stop_timeout_s=0.5", "engine.release_timeout_s=0.3"))


def test_a_start_reaps_what_another_profile_left_on_the_port(tmp_path: Path, profile: Profile) -> None:
    folder = tmp_path / "k25serve"
    folder.mkdir()
    left = []
    for name in ("old-30000.log", "old-30000.log.1", "old-30001.log", "old-130000.log"):
        with (folder / name).open("w") as output:
            left.append(subprocess.Popen(["sleep", "300"], stdout=output))
    try:
        with engine_state(profile):
            assert [process.poll() for process in left[2:]] == [None, None]
            assert [process.wait(10) for process in left[:2]] == [-9, -9]
    finally:
        for process in left:
            process.kill()
            process.wait()


HOLDER = """
import fcntl, os, subprocess, sys, time
lock = open(sys.argv[1], "a+"); fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(str(os.getpid())); lock.flush()
child = subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[lock.fileno()])
print(child.pid, flush=True)
"""


def test_a_guardian_that_still_stops_is_waited_for(tmp_path: Path, profile: Profile) -> None:
    """Its launcher was killed; it holds the lock on."""
    (tmp_path / "k25serve").mkdir()
    lock = tmp_path / "k25serve" / "30000.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock), "1"], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        guardian = int(launcher.stdout.readline())
    with engine_state(profile):
        assert not running([guardian])
        assert lock.read_text() == str(os.getpid())


def test_port_in_use_is_told_at_once_with_its_holder(profile: Profile) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert listener(port) == os.getpid()
        busy = profile.model_copy(update={"engine": profile.engine.model_copy(update={"port": port})})
        with pytest.raises(PreflightError, match=rf"by pid {os.getpid()}, .*pytest") as caught:
            wait_released(busy, lambda _: pytest.fail("a server does not go away by waiting"))
    assert not isinstance(caught.value, StillHeld)
    wait_released(busy, lambda _: pytest.fail("nothing to wait for"))


def test_a_port_whose_socket_lingers_is_waited_for(profile: Profile) -> None:
    """Bound, but nobody listens: what is left of a server that was killed."""
    with socket.socket() as rest:
        rest.bind(("127.0.0.1", 0))
        port = rest.getsockname()[1]
        busy = profile.model_copy(update={"engine": profile.engine.model_copy(update={"port": port})})
        told: list[str] = []
        with pytest.raises(StillHeld, match=r"waited engine\.release_timeout_s = 0\.3 s for it") as caught:
            wait_released(busy, told.append)
    assert caught.value.exit_code == 1  # a supervisor tries again
    assert told == [f"engine: waiting up to 0.3 s: {str(caught.value).rpartition('; waited')[0]}"]


NVIDIA_SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) cat "$0.gpus" ;;
--query-compute-apps=*) cat "$0.apps" ;;
esac
"""


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return program


def on_gpus(profile: Profile, **changed: object) -> Profile:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gpu = {"device": "cuda", "mem_fraction_static": 0.9, "port": port}
    return profile.model_copy(update={"engine": profile.engine.model_copy(update=gpu | changed)})


def test_gpu_memory_is_waited_for_then_its_holder_named(nvidia_smi: Path, profile: Profile) -> None:
    free = "0, GPU-a, 97000, 97887\n1, GPU-b, {free}, 97887\n"
    gpus, apps = nvidia_smi.with_name("nvidia-smi.gpus"), nvidia_smi.with_name("nvidia-smi.apps")
    gpus.write_text(free.format(free=20000))
    apps.write_text(f"GPU-b, {os.getpid()}, 70000, python3\nGPU-b, 999999999, 5000, vllm\nGPU-a, 1, [N/A], x\n")
    with pytest.raises(StillHeld) as caught:
        wait_released(on_gpus(profile, tp=2), lambda _: None)
    told = str(caught.value)
    assert "GPU 1 has 19.5 GiB free, engine.mem_fraction_static 0.9 takes 86.0: held by pid " in told
    assert f"pid {os.getpid()} ({command_of(os.getpid())}) 70,000 MiB, pid 999999999 (vllm) 5,000 MiB" in told
    assert "waited engine.release_timeout_s = 0.3 s" in told
    assert "\n" not in told

    wait_released(on_gpus(profile, tp=1), lambda _: pytest.fail("GPU 1 is not asked for"))
    wait_released(on_gpus(profile, tp=1, env={"CUDA_VISIBLE_DEVICES": "GPU-a"}), lambda _: pytest.fail("free"))
    with pytest.raises(StillHeld, match="GPU 1 has"):
        wait_released(on_gpus(profile, tp=1, env={"CUDA_VISIBLE_DEVICES": "1,0"}), lambda _: None)

    apps.write_text("")
    with pytest.raises(StillHeld, match="a process that cannot be seen from here"):
        wait_released(on_gpus(profile, tp=2), lambda _: None)

    def freed(_: str) -> None:
        gpus.write_text(free.format(free=97000))

    wait_released(on_gpus(profile, tp=2, release_timeout_s=10.0), freed)


GPUS = [Gpu(0, "GPU-aa", 1, 2), Gpu(1, "GPU-ab", 1, 2), Gpu(2, "GPU-c", 1, 2)]


@pytest.mark.parametrize(
    ("visible", "count", "indices"),
    [
        (None, 2, [0, 1]),
        ("2,0", 2, [2, 0]),
        ("GPU-ab", 1, [1]),
        ("2,7,0", 3, [2]),
        ("", 2, []),
        (" 1 , 0", 1, [1]),
    ],
)
def test_the_gpus_that_cuda_numbers(visible: str | None, count: int, indices: list[int]) -> None:
    assert [gpu.index for gpu in used_gpus(GPUS, visible, count)] == indices
