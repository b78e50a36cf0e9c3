"""Starting a stack that can't start says why, and leaves nothing running."""

from pathlib import Path
from threading import Event

import pytest

from k25serve.bench.gpu.booted import Booted, ProofError, boot, boot_bare, patches_in_place


def test_a_stack_that_ends_shows_its_last_lines(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with (
        pytest.raises(ProofError, match=rf"faulty: ended with 2:\n.*{missing.name}"),
        boot("faulty", "cpu-tiny", [f"target={missing}"], tmp_path, ready_s=60, given_up=Event()),
    ):
        pytest.fail("it started")


def test_a_profile_that_is_refused_is_told_before_anything_starts(tmp_path: Path) -> None:
    with (
        pytest.raises(ProofError, match=r"bare: k25serve: error: .*engine\.tp"),
        boot_bare("bare", "cpu-tiny", ["engine.tp=none"], tmp_path, ready_s=60, given_up=Event(), env={}),
    ):
        pytest.fail("it started")
    assert list(tmp_path.iterdir()) == []


def test_patches_are_read_from_the_engines_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    stack = Booted("arm", "", "", log, 1.0, 1)
    log.write_text('noise\n[TP0] k25serve: patches in place: {"sglang": "0.5.17", "processes": []}\nmore\n')
    assert patches_in_place(stack) == {"sglang": "0.5.17", "processes": []}
    log.write_text("noise\n")
    with pytest.raises(ProofError, match="arm: its log does not say"):
        patches_in_place(stack)
