"""What is left after a kill is named: processes, holders of GPU memory, memory that is not freed."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks import killed
from k25serve.bench.gpu.ranks.killed import _on_gpus, _running, _until
from k25serve.server.engine.gpu_memory import MIB, Gpu, GpuHolder

GIB = 1024 * MIB


def test_zombies_are_gone_and_others_are_named() -> None:
    child = subprocess.Popen(["sleep", "300"])
    try:
        assert _running([child.pid, 2**22 + 1]) == [f"{child.pid} (sleep 300)"]
        child.kill()
        deadline = time.monotonic() + 5
        while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < deadline
        assert _running([child.pid]) == []
    finally:
        child.wait()


def test_gpus_are_free_when_nobody_of_ours_holds_and_all_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {0: 140 * GIB, 1: 139 * GIB}
    holders = [GpuHolder("GPU-1", os.getpid(), 2 * GIB, "python"), GpuHolder("GPU-0", 1, GIB, "other")]
    monkeypatch.setattr(killed, "gpus", lambda: [Gpu(i, f"GPU-{i}", free[i], 141 * GIB) for i in free])
    monkeypatch.setattr(killed, "gpu_holders", lambda: holders)
    before = {0: 140 * GIB, 1: 140 * GIB}
    (holder, short) = _on_gpus([os.getpid()], before)
    assert holder.startswith(f"pid {os.getpid()} (")
    assert short == "GPU 1: 1,024 MiB not freed"
    free[1] = 140 * GIB - 100 * MIB
    holders.pop(0)
    assert _on_gpus([os.getpid()], before) == []
    assert _on_gpus([os.getpid()], {}) == [], "no GPUs, nothing to ask"


def test_what_stays_is_an_error_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "GONE_S", 0.2)
    with pytest.raises(ProofError, match=r"rank killed: processes left after 0\.2 s: \['7 \(x\)'\]"):
        _until(time.monotonic(), "rank killed: processes left", lambda: ["7 (x)"])
