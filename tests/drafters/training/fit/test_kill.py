"""A training process that is killed, and torchrun's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from drafter_files.fit_settings import VALUES, toy_options
from safetensors.torch import load_file

from k25serve.drafters.training.fit.run import fit
from k25serve.drafters.training.progress import Silent

LONG = {**VALUES, "max_steps": 400, "evaluate_every": 100, "checkpoint_every_steps": 20}


def command(tmp_path: Path, run: Path, target: Path) -> list[str]:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(LONG))
    words = ["k25serve.server.main", "drafter", "train", "fit", "--run", str(run), "--target", str(target)]
    return [*words, "--config", str(tmp_path / "own.yaml")]


def test_a_killed_process_goes_on_bit_by_bit(run: Path, target: Path, tmp_path: Path) -> None:
    whole = fit(toy_options(**LONG), run, target, run / "whole", Silent())
    process = subprocess.Popen([sys.executable, "-P", "-m", *command(tmp_path, run, target)])
    checkpoints = run / "fit" / "checkpoints"
    deadline = time.monotonic() + 300
    while not list(checkpoints.glob("step-*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (run / "fit" / "final").exists()
    resumed = fit(toy_options(**LONG), run, target, run / "fit", Silent())
    expected, found = (load_file(one.final / "model.safetensors") for one in (whole, resumed))
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.full
def test_two_processes_train_one_drafter(run: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(LONG))
    launcher = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    words = ["k25serve.drafters.training.run.rank", run, target, tmp_path / "own.yaml", run / "fit"]
    ended = subprocess.run([*launcher, *map(str, words)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    alone = fit(toy_options(**LONG), run, target, run / "alone", Silent())
    result = yaml.safe_load((run / "fit" / "result.json").read_text())
    assert (result["processes"], result["step"]) == (2, 400)
    assert result["tokens"] > 1.5 * alone.tokens
    assert result["held_out"]["histogram"] != []
    assert sum(result["held_out"]["histogram"][:1]) > 0
    found = load_file(run / "fit" / "final" / "model.safetensors")
    assert all(bool(tensor.isfinite().all()) for tensor in found.values() if tensor.is_floating_point())
