"""A child of the engine dies while it serves: the launcher ends at once, with the reason, and leaves nothing."""

import os
import signal
import time
from pathlib import Path

import pytest
from e2e.stack import boot, wait_gone

pytestmark = [pytest.mark.engine, pytest.mark.full]


@pytest.mark.parametrize("child", ["sglang::scheduler", "sglang::detokenizer"])
def test_launcher_ends_when_a_child_dies(tmp_path: Path, child: str) -> None:
    with boot(tmp_path, "serve", "-p", "cpu-tiny-nospec") as served:
        processes = served.processes
        victim = next(pid for pid in processes if child in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        started = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        assert served.launcher.wait(30) == 1
        print(f"{child}: ended after {time.monotonic() - started:.1f} s")
        wait_gone(processes, 30)
        assert "k25serve: error: the engine ended with" in served.said
