"""Drafters on the real engine: an adapted one works as well as the original; a broken one is found by the gate."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from drafter_files.variants import (
    as_k2_checkpoint,
    with_aux_layers_off_by_one,
    with_random_head,
    with_shuffled_d2t,
)
from e2e.stack import COMMAND, boot, free_ports

from k25serve.drafters.check import Verdict
from k25serve.drafters.gate import GateResult, GateSettings, run_gate
from k25serve.drafters.tiny import DRAFTER, TARGET
from k25serve.server.config import load_profile
from k25serve.server.engine.argv import engine_command, engine_env
from k25serve.server.engine.process import EngineProcess
from k25serve.server.engine.readiness import engine_url, wait_ready

pytestmark = [pytest.mark.engine, pytest.mark.full]
# One request at a time: in a batch the order of sums, and so a near tie, depends on who else is in it.
SETTINGS = GateSettings(policy="refuse", accept_floor=1.3, max_tokens=64, concurrency=1)


async def gate_of(folder: Path, drafter: Path) -> GateResult:
    """The gate's result on an engine started without the check, which would refuse some of these drafters itself."""
    (port,) = free_ports(1)
    overrides = (f"speculation.drafter={drafter}", "engine.dtype=float32", f"engine.port={port}")
    profile = load_profile("cpu-tiny", overrides)
    engine = await EngineProcess.start(engine_command(profile), engine_env(profile), folder / "engine.log", 30)
    try:
        await wait_ready(engine, profile)
        return await run_gate(engine_url(profile), SETTINGS)
    finally:
        await engine.stop()


async def test_adapted_drafter_accepts_as_the_original(tmp_path: Path) -> None:
    old = as_k2_checkpoint(DRAFTER, tmp_path / "k2", context_length=512)
    check = [COMMAND, "drafter", "check", "--drafter", old, "--target", TARGET]
    refused = await asyncio.to_thread(subprocess.run, check, capture_output=True, text=True, check=False)
    assert refused.returncode == 1, refused.stdout
    adapted = tmp_path / "adapted"
    aux = ["--aux-convention", "output"]
    adapt = [COMMAND, "drafter", "adapt", "kimi_k2", "--drafter", old, "--out", adapted, "--target", TARGET, *aux]
    done = await asyncio.to_thread(subprocess.run, adapt, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    original, new = await gate_of(tmp_path, DRAFTER), await gate_of(tmp_path, adapted)
    print(f"accept_length original {original.overall}, adapted {new.overall}")
    assert original.overall.accept_length is not None
    assert new.overall.accept_length == pytest.approx(original.overall.accept_length, rel=0.01)


@pytest.mark.parametrize("break_it", [with_random_head, with_aux_layers_off_by_one, with_shuffled_d2t])
async def test_gate_finds_a_broken_drafter(tmp_path: Path, break_it: Callable[[Path, Path], Path]) -> None:
    result = await gate_of(tmp_path, break_it(DRAFTER, tmp_path / "broken"))
    print(f"{break_it.__name__}: {result.verdict}, {result.overall}")
    assert result.verdict is Verdict.REFUSE
    assert result.reasons


async def test_gate_at_start_is_told_and_exported(tmp_path: Path) -> None:
    """With policy `warn` the engine is ready first; the outcome is on the console, in a file and in /metrics."""
    with boot(
        tmp_path, "serve", "-p", "cpu-tiny", "--set", "gate.policy=warn", ready_line="acceptance gate: (pass|warn)"
    ) as served:
        async with aiohttp.ClientSession() as session, session.get(f"{served.gateway_url}/metrics") as answer:
            metrics = await answer.text()
    assert 'k25serve_gateway_gate_accept_length{prompts="all"}' in metrics
    assert 'k25serve_gateway_gate_verdict{verdict="refuse"} 0.0' in metrics
    (file,) = (tmp_path / "k25serve").glob("*.gate.json")
    assert json.loads(file.read_text())["overall"]["requests"] >= 50


def test_gate_refuses_the_launch(tmp_path: Path) -> None:
    broken = with_random_head(DRAFTER, tmp_path / "broken")
    overrides = ("--set", f"speculation.drafter={broken}", "--set", "gate.policy=refuse")
    with (
        pytest.raises(AssertionError, match="k25serve ended with 1") as caught,
        boot(tmp_path, "serve", "-p", "cpu-tiny", *overrides),
    ):
        pass
    assert "acceptance gate: refuse, accept_length 1.0" in str(caught.value)


def test_compare(tmp_path: Path) -> None:
    """None, n-gram and EAGLE-3 in one table with a result file."""
    arms = ["none=cpu-tiny-nospec", "ngram=cpu-tiny-ngram", "eagle3=cpu-tiny"]
    command = [COMMAND, "drafter", "compare", *arms, "--max-tokens", "64", "--passes", "2", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    (file,) = tmp_path.glob("drafter-compare/*.json")
    result = json.loads(file.read_text())
    rows = {row["name"]: row for row in result["data"]["rows"]}
    assert rows.keys() == {"none", "ngram", "eagle3"}
    assert rows["none"]["accept_length"] is None
    assert rows["eagle3"]["accept_length"] > 1.3
    assert result["data"]["baseline"] == "none"
    assert result["seconds"] > 60
