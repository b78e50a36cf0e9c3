"""Shared memory, limits, kernel command line, ports and links."""

import resource
import socket
from pathlib import Path

import pytest

from k25serve.bench.comm.report import CommReport, Host, Plan, RankEnd, Run
from k25serve.deploy.doctor.checks import links, ports, system
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import load_profile

GIB = 2**30


class SmallShm(Machine):
    """A container with Docker's default."""

    def free_bytes(self, path: str) -> int | None:
        return 64 * 2**20 if path == "dev/shm" else None


def test_a_containers_default_shared_memory_is_too_small_for_ranks(tmp_path: Path) -> None:
    found = system.judge_shm(SmallShm(tmp_path), 8)
    assert found.verdict == "fail"
    assert "size=8G" in found.remedy
    assert system.judge_shm(SmallShm(tmp_path), 1).verdict == "ok"
    assert system.judge_shm(Machine(tmp_path), 8).verdict == "fail"


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [((1024, 4096), "warn"), ((1024, 1_048_576), "ok"), ((1024, resource.RLIM_INFINITY), "ok")],
)
def test_open_files(limit: tuple[int, int], verdict: str) -> None:
    assert system.judge_files(limit).verdict == verdict


@pytest.mark.parametrize(
    ("line", "ranks", "verdict"),
    [
        ("root=/dev/sda1 quiet", 8, "warn"),
        ("root=/dev/sda1 amd_iommu=on iommu=pt", 8, "ok"),
        ("root=/dev/sda1 intel_iommu=on", 8, "warn"),
        ("root=/dev/sda1 quiet", 1, "ok"),
    ],
)
def test_iommu(line: str, ranks: int, verdict: str) -> None:
    assert system.judge_iommu(line, ranks, "").verdict == verdict


def test_a_container_is_told_what_to_run_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/1/environ").write_bytes(b"PATH=/bin\0container=lxc\0")
    (tmp_path / "proc/cmdline").write_text("quiet\n")
    (tmp_path / "proc/sys/kernel/numa_balancing").write_text("1\n")
    machine = Machine(tmp_path)
    assert system.container_of(machine) == "lxc"
    profile = load_profile("k25-int4-sm120x8", environ={"K25_TARGET": "/t", "K25_DRAFTER": "/d"}, need_models=False)
    found = system.judge_kernel(machine, profile)
    assert [one.check for one in found] == ["iommu", "numa balancing"]
    assert all(one.remedy.startswith("on the host (lxc container here): ") for one in found)
    (tmp_path / "proc/1/environ").write_bytes(b"PATH=/bin\0")
    assert not any(one.remedy.startswith("on the host") for one in system.judge_kernel(machine, profile))


def test_a_port_that_is_taken_is_told_with_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = ports.check(load_profile("cpu-tiny", [f"engine.port={port}"]), Machine(tmp_path))
    assert found[0].verdict == "fail"
    assert str(port) in found[0].evidence
    assert found[0].remedy


TOPOLOGY = """\tGPU0\tGPU1\tGPU2\tCPU Affinity
GPU0\t X \tPIX\t{kind}\t0-63
GPU1\tPIX\t X \t{kind}\t0-63
GPU2\t{kind}\t{kind}\t X \t0-63
"""


@pytest.mark.parametrize(("kind", "verdict"), [("NODE", "ok"), ("SYS", "warn"), ("NV18", "ok")])
def test_topology(kind: str, verdict: str) -> None:
    found = links.judge_topology(TOPOLOGY.format(kind=kind), 3)
    assert found.verdict == verdict
    assert kind in found.evidence
    assert "PIX" in found.evidence


def run(variant: str, environment: dict[str, str], passed: bool) -> Run:
    ends = tuple(
        RankEnd(
            rank=rank,
            stage="all_reduce",
            outcome="done" if passed else "hung",
            exit_code=0 if passed else None,
        )
        for rank in range(2)
    )
    plan = Plan(backend="nccl", sizes=(14336,))
    return Run(
        variant=variant, environment=environment, plan=plan, ranks=2, passed=passed, seconds=12, limit_s=12, ends=ends
    )


def report(*runs: Run) -> CommReport:
    host = Host(kernel_command_line="", iommu_groups=0, iommu_type="", topology="", nccl_environment={}, findings=())
    return CommReport(host=host, runs=runs)


def test_a_hang_is_told_with_the_setting_that_works() -> None:
    hung, works = run("default", {}, passed=False), run("p2p-off", {"NCCL_P2P_DISABLE": "1"}, passed=True)
    found = links.judge_all_reduce(report(hung, works), 2)
    assert found.verdict == "fail"
    assert "rank 1 hung at all_reduce" in found.evidence
    assert "NCCL_P2P_DISABLE=1" in found.remedy
    assert links.judge_all_reduce(report(hung), 2).verdict == "fail"
    assert links.judge_all_reduce(report(run("default", {}, passed=True)), 2).verdict == "ok"
    assert links.judge_all_reduce(None, 2).verdict == "fail"
