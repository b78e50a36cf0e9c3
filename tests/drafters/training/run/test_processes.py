"""Processes that must not outlive a run, and are found again by pid and start time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from k25serve.drafters.training.run.processes import Process, tree

CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); {}"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
# A run that starts a process, says its pid, and is then killed.
PARENT = """
import sys, time
from pathlib import Path
from k25serve.drafters.training.run.processes import start
with open(sys.argv[1], "wb") as output:
    print(start([sys.executable, "-c", "import time; time.sleep(600)"], {}, output).pid, flush=True)
time.sleep(600)
"""


def gone(process: Process, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    return not process.alive


def test_it_ends_with_its_run_even_by_sigkill(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = Process.of(int(parent.stdout.readline()))
        assert child is not None
        os.kill(parent.pid, signal.SIGKILL)
        assert gone(child)


def test_ends_a_stubborn_one_with_all_below_it() -> None:
    code = CHILD.format(STUBBORN)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        everything = tree(process.pid)
        assert len(everything) == 2
        everything[0].end(0.2)
        assert all(gone(one) for one in everything)


def test_a_pid_that_was_given_out_anew_is_another_process() -> None:
    own = Process.of(os.getpid())
    assert own is not None
    assert own.alive
    other = Process(own.pid, own.started + 1)
    assert not other.alive
    other.end(0.1)  # must not end this very process
    assert own.alive
