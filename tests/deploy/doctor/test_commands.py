"""`k25serve doctor` on this machine: every planted fault is found, in seconds, and JSON is JSON."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from k25serve.bench.plan.commands import app as plan
from k25serve.deploy.doctor.commands import app
from k25serve.drafters.tiny import DRAFTER, TARGET
from k25serve.patches import smoke

WITHIN_S = 10


def doctor(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    started = time.monotonic()
    result = CliRunner().invoke(app, ["examine", *arguments, "--json"])
    assert time.monotonic() - started < WITHIN_S
    return result.exit_code, json.loads(result.stdout)


def failures(found: list[dict[str, str]]) -> dict[str, str]:
    return {one["check"]: one["evidence"] for one in found if one["verdict"] == "fail"}


def test_the_packaged_profile_is_well() -> None:
    code, found = doctor("-p", "cpu-tiny")
    assert (code, failures(found)) == (0, {})
    assert {one["check"] for one in found} >= {"sglang", "patches", "target", "drafter", "chat template", "ports"}


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def test_a_cut_shard(tmp_path: Path) -> None:
    target = copied(TARGET, tmp_path / "target")
    shard = target / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:1000])
    code, found = doctor("-p", "cpu-tiny", "--set", f"target={target}")
    assert code == 1
    assert "model.safetensors" in failures(found)["target"]


def test_a_target_without_a_chat_template(tmp_path: Path) -> None:
    target = copied(TARGET, tmp_path / "target")
    (target / "chat_template.jinja").unlink()
    _, found = doctor("-p", "cpu-tiny", "--set", f"target={target}")
    assert "chat template" in failures(found)


def test_a_drafter_that_does_not_fit(tmp_path: Path) -> None:
    drafter = copied(DRAFTER, tmp_path / "drafter")
    config = json.loads((drafter / "config.json").read_text())
    (drafter / "config.json").write_text(json.dumps(config | {"hidden_size": 128}))
    _, found = doctor("-p", "cpu-tiny", "--set", f"speculation.drafter={drafter}")
    assert "drafter" in failures(found)


def test_the_file_of_step_costs(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    adaptive = ("-p", "cpu-tiny", "--set", f"speculation.adaptive={costs}")
    code, found = doctor(*adaptive)
    assert code == 1
    assert f"speculation.adaptive {costs}: can't be read as JSON" in failures(found)["step costs"]
    assert CliRunner().invoke(plan, ["adaptive", str(costs)]).exit_code == 0
    code, found = doctor(*adaptive)
    assert (code, failures(found)) == (0, {})
    assert any("adaptive_costs" in one["evidence"] for one in found if one["check"] == "patches")


@pytest.mark.parametrize(
    ("override", "check"),
    [("engine.version=0.5.17", "sglang"), ("target=/nowhere", "target"), ("engine.device=cuda", "driver")],
)
def test_a_fault_of_the_profile_or_the_machine(override: str, check: str) -> None:
    code, found = doctor("-p", "cpu-tiny", "--set", override)
    assert code == 1
    assert check in failures(found)
    assert all(one["remedy"] for one in found if one["verdict"] in ("fail", "warn"))


def test_a_model_that_no_variable_names() -> None:
    _, found = doctor("-p", "k25-int4-sm120x8")
    assert "K25_TARGET" in failures(found)["target"]


def test_a_log_is_named_its_cause(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("start\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n")
    result = CliRunner().invoke(app, ["log", str(log)])
    assert (result.exit_code, result.stdout.splitlines()[0][:7]) == (0, "line 2:")
    log.write_text("all is well\n")
    assert CliRunner().invoke(app, ["log", str(log)]).exit_code == 1


def test_kernels_without_a_gpu_are_each_told(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    smoke.main()
    rows: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["package"] for row in rows] == ["torch", "sglang-kernel", "k25serve"]
    assert all(row["error"] for row in rows)
