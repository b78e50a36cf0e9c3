"""One run a folder."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.run.lock import FILE, only_run

HOLD = """
import sys, time
from pathlib import Path
from k25serve.drafters.training.run.lock import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def holder(folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_refused_and_a_killed_one_taken_over(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(TrainingError, match=rf"another run \(pid {process.pid}\) works there"), only_run(tmp_path):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with only_run(tmp_path):
            assert (tmp_path / FILE).read_text() == str(os.getpid())


def test_a_dead_owner_whose_child_keeps_the_lock_is_waited_for(tmp_path: Path) -> None:
    """A killed run's worker may hold the file a little longer than the run itself."""
    path = tmp_path / FILE
    with path.open("w") as file:
        file.write("999999999")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TrainingError, match="pid 999999999"), only_run(tmp_path, patience_s=0.5):
            pass
    with only_run(tmp_path, patience_s=0.5):
        pass
