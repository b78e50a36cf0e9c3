"""What is left after a kill is named, and costs neither the other kill nor the next start."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench.gpu.booted import Booted, ProofError
from k25serve.bench.gpu.ranks import killed
from k25serve.bench.gpu.ranks.killed import VICTIMS, _running, _until
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.gpu.start import Start
from k25serve.server.engine.holders import command_of


def test_zombies_are_gone_and_others_are_named() -> None:
    child = subprocess.Popen(["sleep", "300"])
    deadline = time.monotonic() + 60
    try:
        # A fork has its parent's command line until it executes its own.
        while command_of(child.pid) != "sleep 300":
            assert time.monotonic() < deadline
        assert _running([child.pid, 2**22 + 1]) == [f"{child.pid} (sleep 300)"]
        child.kill()
        while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < deadline
        assert _running([child.pid]) == []
    finally:
        child.wait()


def test_what_stays_is_an_error_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "GONE_S", 0.2)
    with pytest.raises(ProofError, match=r"rank killed: processes left after 0\.2 s: \['7 \(x\)'\]"):
        _until(time.monotonic(), "rank killed: processes left", lambda: ["7 (x)"])


KILL = {"processes": 9, "gone_s": 0.5, "gpu_mib": {"0": 900}, "gpus_free_s": 0.57, "segments_removed": 3}


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the stacks that were started; they answer four tokens."""
    started: list[str] = []

    @contextmanager
    def serving(_: Setting, name: str, ranks: int, *, at: Any) -> Iterator[Booted]:
        started.append(name)
        yield Booted(name, "", "", Path(), 75.8, 1)

    async def answers(*_: Any, **__: Any) -> Any:
        return [type("Answer", (), {"ids": [1, 2, 3, 4]})]

    monkeypatch.setattr(killed, "serving", serving)
    monkeypatch.setattr(killed, "answers", answers)
    monkeypatch.setattr(killed, "use_by", lambda _: {})
    return started


def kills(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: tuple[str, ...]) -> dict[str, Any]:
    def kill(_: Setting, __: Booted, victim: str, ___: Any) -> dict[str, Any]:
        if victim in failing:
            raise ProofError(f"{victim} killed: on the GPUs after 90 s: [...]")
        return KILL

    monkeypatch.setattr(killed, "_kill", kill)
    return killed.run(Setting(2, "gpu-tiny", "cuda", Start((), (), tmp_path)))


def test_one_kill_that_leaves_something_costs_neither_the_other_nor_the_next_start(
    stacks: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = kills(monkeypatch, tmp_path, ("launcher",))
    assert data["kills"] == {"rank": {"ready_s": 75.8, **KILL}}
    assert list(data["failed"]) == ["launcher"]
    assert data["next_start"] == {"ready_s": 75.8, "tokens": 4}
    assert len(stacks) == 3
    text = killed.markdown(data)
    assert "SIGKILL of one rank: all 9 processes gone after 0.5 s, GPU memory free after 0.6 s" in text
    assert "- launcher: FAILED, ProofError('launcher killed: on the GPUs after 90 s" in text
    assert "ready after 76 s, answers" in text


def test_all_kills_that_leave_something_are_an_error(
    stacks: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ProofError, match=r"rank killed: on the GPUs.*launcher killed"):
        kills(monkeypatch, tmp_path, VICTIMS)
    assert len(stacks) == 2


def test_a_report_without_a_next_start() -> None:
    text = killed.markdown({"kills": {"rank": KILL}, "failed": {"next start": "ProofError('not ready')"}})
    assert "- next start: FAILED, ProofError('not ready')" in text
    assert "answers" not in text
