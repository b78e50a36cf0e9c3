"""What killed processes still hold on GPUs, told apart from what other programs take there."""

import os

import pytest

from k25serve.bench.gpu.ranks import gpu_use
from k25serve.bench.gpu.ranks.gpu_use import Use, left_by, use_by
from k25serve.server.engine.gpu_memory import MIB, Gpu, GpuHolder

GIB = 1024 * MIB
OURS, OTHER = 2**22 + 1, 2**22 + 2  # no process has such a pid


class Machine:
    """Two GPUs: what is in use, who holds it, and whom the driver shows."""

    def __init__(self) -> None:
        self.held = {(0, OTHER): 10 * GIB}
        self.kept = {0: 0, 1: 0}
        self.shown = {OURS, OTHER, os.getpid()}
        self.silent: set[int] = set()

    def gpus(self) -> list[Gpu]:
        used = {gpu: 700 * MIB + self.kept[gpu] for gpu in (0, 1)}  # the driver's own
        for (gpu, _), size in self.held.items():
            used[gpu] += size
        return [Gpu(gpu, f"GPU-{gpu}", 141 * GIB - used[gpu], 141 * GIB) for gpu in used if gpu not in self.silent]

    def gpu_holders(self) -> list[GpuHolder]:
        return [
            GpuHolder(f"GPU-{gpu}", pid, size, "python") for (gpu, pid), size in self.held.items() if pid in self.shown
        ]

    def start(self) -> None:
        self.held |= {(0, OURS): 20 * GIB, (1, OURS): 21 * GIB}

    def end(self) -> None:
        del self.held[0, OURS], self.held[1, OURS]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(gpu_use, "gpus", found.gpus)
    monkeypatch.setattr(gpu_use, "gpu_holders", found.gpu_holders)
    monkeypatch.setattr(gpu_use, "PAUSE_S", 0.0)
    return found


def started(machine: Machine) -> tuple[dict[int, Use], dict[int, Use]]:
    """Use before the start, and while it runs."""
    idle = use_by(())
    machine.start()
    return idle, use_by([OURS])


def test_memory_in_use_is_split_by_who_holds_it(machine: Machine) -> None:
    idle, running = started(machine)
    assert idle[0] == Use(10 * GIB + 700 * MIB, 0, 10 * GIB)
    assert running[0] == Use(30 * GIB + 700 * MIB, 20 * GIB, 10 * GIB)
    assert (running[0].unseen, running[1].unseen) == (700 * MIB, 700 * MIB)


def test_what_runs_still_holds(machine: Machine) -> None:
    idle, running = started(machine)
    assert [text.partition(" (")[0] for text in left_by([OURS], idle, running)] == [f"pid {OURS}"] * 2


def test_others_that_take_memory_meanwhile_are_not_blamed(machine: Machine) -> None:
    idle, running = started(machine)
    machine.end()
    machine.held |= {(0, OTHER): 60 * GIB, (1, os.getpid()): 3 * GIB}
    assert left_by([OURS], idle, running) == []


def test_others_that_free_memory_hide_nothing(machine: Machine) -> None:
    idle, running = started(machine)
    machine.end()
    del machine.held[0, OTHER]
    machine.kept[0] = 20 * GIB
    assert left_by([OURS], idle, running) == [
        "GPU 0: 20,480 MiB of the 20,480 that they held not freed, held by no process that nvidia-smi shows; "
        "other programs hold 0 MiB, 10,240 before"
    ]


def test_a_driver_may_keep_a_little(machine: Machine) -> None:
    idle, running = started(machine)
    machine.end()
    machine.kept[1] = 500 * MIB
    assert left_by([OURS], idle, running) == []


def test_more_than_they_held_is_not_theirs(machine: Machine) -> None:
    """A program outside of the container takes memory; of that no more than what they held may be theirs."""
    idle, running = started(machine)
    machine.end()
    machine.kept[1] = 90 * GIB
    (text,) = left_by([OURS], idle, running)
    assert text.startswith("GPU 1: 21,504 MiB of the 21,504 that they held")


def test_where_the_driver_shows_nobody_the_text_says_so(machine: Machine) -> None:
    machine.shown = set()
    idle, running = started(machine)
    machine.end()
    assert left_by([OURS], idle, running) == []
    machine.kept[0] = 2 * GIB
    assert left_by([OURS], idle, running) == [
        "GPU 0: 2,048 MiB more in use than before the start, nvidia-smi does not show whose; "
        "other programs hold 0 MiB, 0 before"
    ]


def test_where_pids_are_the_hosts_others_are_still_told_apart(machine: Machine) -> None:
    idle = use_by(())
    machine.start()
    running = use_by([1, 2])  # as this container numbers them
    machine.end()
    machine.held[0, OTHER] = 60 * GIB
    assert left_by([1, 2], idle, running) == []


def test_a_gpu_that_tells_nothing_is_no_free_gpu(machine: Machine) -> None:
    idle, running = started(machine)
    machine.end()
    machine.silent = {1}
    assert left_by([OURS], idle, running) == ["GPU 1: nvidia-smi does not tell its memory"]


def test_answers_that_do_not_fit_each_other_are_asked_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def gpus_and_a_program_that_starts() -> list[Gpu]:
        found = machine.gpus()
        machine.held[1, OTHER] = 5 * GIB
        return found

    monkeypatch.setattr(gpu_use, "gpus", gpus_and_a_program_that_starts)
    assert use_by(())[1] == Use(5 * GIB + 700 * MIB, 0, 5 * GIB)
