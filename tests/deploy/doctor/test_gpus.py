"""Driver, devices, toolkit and architectures, on machines whose programs say what the test gives them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from k25serve.deploy.doctor.checks import gpus
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import load_profile

MakeProgram = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path) -> MakeProgram:
    """Puts a program on PATH that prints a text."""
    (tmp_path / "bin").mkdir()

    def make(name: str, prints: str) -> Path:
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)  # subprocess looks a program up in our own
    return Machine(tmp_path, {"PATH": path})


@pytest.mark.parametrize(
    ("arch_list", "verdict"),
    [
        (["sm_80", "sm_90"], "fail"),
        (["sm_90", "compute_90"], "warn"),
        (["sm_120"], "ok"),
        (["sm_100"], "fail"),
        (["sm_120a"], "ok"),
        (["compute_130"], "fail"),
        ([], "fail"),
    ],
)
def test_binaries_on_a_card_of_compute_capability_12_0(arch_list: list[str], verdict: str) -> None:
    found, reason = gpus.judge_architecture("12.0", arch_list)
    assert found == verdict
    assert "12.0" in reason


@pytest.mark.parametrize(
    ("capability", "arch", "verdict"),
    [("12.1", "sm_120", "ok"), ("12.1", "sm_120a", "fail"), ("12.0", "sm_121", "fail"), ("9.0", "sm_90a", "ok")],
)
def test_machine_code_runs_on_later_minor_versions_unless_it_is_specific(
    capability: str, arch: str, verdict: str
) -> None:
    assert gpus.judge_architecture(capability, [arch])[0] == verdict


@pytest.mark.parametrize(
    ("driver", "cuda", "count", "verdict"),
    [
        ("590.48.01", (13, 0), 8, "ok"),
        ("570.10.01", (13, 0), 8, "fail"),
        ("570.10.01", (12, 8), 8, "ok"),
        ("590.48.01", (13, 0), 4, "fail"),
        ("590.48.01", None, 8, "fail"),
    ],
)
def test_driver(driver: str, cuda: tuple[int, int] | None, count: int, verdict: str) -> None:
    found = gpus.judge_driver(["RTX PRO 6000"] * count, driver, cuda, 8)
    assert found.verdict == verdict
    assert bool(found.remedy) == (verdict == "fail")


def test_toolkit_of_another_major_version_is_refused(program: MakeProgram, machine: Machine, tmp_path: Path) -> None:
    program("nvcc", "Cuda compilation tools, release 12.8, V12.8.61")
    at_home = Machine(tmp_path, {**machine.environ, "CUDA_HOME": str(tmp_path)})
    assert gpus.judge_toolkit(at_home, (12, 9)).verdict == "ok"
    wrong = gpus.judge_toolkit(at_home, (13, 0))
    assert (wrong.verdict, wrong.remedy) == ("fail", "point CUDA_HOME at a toolkit 13.x")


def test_toolkit_that_is_missing_is_refused(machine: Machine, tmp_path: Path) -> None:
    at_home = Machine(tmp_path, {**machine.environ, "CUDA_HOME": "/nowhere"})
    found = gpus.judge_toolkit(at_home, (13, 0))
    assert found.verdict == "fail"
    assert "/nowhere/bin/nvcc" in found.evidence


def test_toolkit_found_by_path_alone_is_a_warning(program: MakeProgram, machine: Machine) -> None:
    program("nvcc", "Cuda compilation tools, release 13.0, V13.0.48")
    assert gpus.judge_toolkit(machine, (13, 0)).verdict == "warn"


def test_a_container_without_uvm_is_refused(machine: Machine) -> None:
    (machine.root / "dev").mkdir()
    (machine.root / "dev" / "nvidiactl").touch()
    found = gpus.judge_devices(machine)
    assert (found.verdict, found.evidence) == ("fail", "/dev/nvidia-uvm is not there")
    (machine.root / "dev" / "nvidia-uvm").touch()
    assert gpus.judge_devices(machine).verdict == "ok"


def test_no_gpu_is_one_failure_and_the_rest_is_skipped(machine: Machine) -> None:
    profile = load_profile("gpu-tiny")
    driver, *rest = gpus.check(profile, Machine(machine.root, {"PATH": str(machine.root)}))
    assert driver.verdict == "fail"
    assert [one.verdict for one in rest] == ["skip"] * 3
    assert {one.verdict for one in gpus.check(load_profile("cpu-tiny"), machine)} == {"skip"}


@pytest.mark.parametrize("said", ["no GPU here", "a, b", "x, y, z, w"])
def test_an_nvidia_smi_that_lists_nothing(machine: Machine, program: MakeProgram, said: str) -> None:
    program("nvidia-smi", said)
    first = gpus.check(load_profile("gpu-tiny"), machine)[0]
    assert (first.check, first.verdict) == ("driver", "fail")
    assert said in first.evidence


def test_a_compute_capability_that_is_none(machine: Machine, program: MakeProgram) -> None:
    wrong = ("[N/A]", "-1.5", "\u00b2.\u00b2", "12")
    program("nvidia-smi", "\n".join(f"NVIDIA X, 580.65, {capability}" for capability in wrong))
    found = [one for one in gpus.check(load_profile("gpu-tiny"), machine) if one.check == "architecture"]
    assert [one.verdict for one in found] == ["fail"] * len(wrong)
    assert all(any(capability in one.evidence for one in found) for capability in wrong)
