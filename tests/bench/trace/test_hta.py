"""The comparison with HTA, with a stand-in for its interpreter: checked before, bounded meanwhile, told after."""

import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from k25serve.bench import provenance
from k25serve.bench.cli import app
from k25serve.bench.trace import hta
from k25serve.server.errors import UserError

ANSWER = (
    '{"version": "0.5.0", "load_seconds": 0.1, "kernel_types_us": {"COMMUNICATION": 960.0}, "first_kernels": [],'
    ' "ranks": [0]}'
)


def interpreter(folder: Path, body: str) -> Path:
    """Answers an import with success; asked for a set, runs `body`."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nif [ "$2" = -c ]; then exit 0; fi\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def call(folder: Path, python: Path, *more: str) -> dict[str, object]:
    arguments = ["--python", str(python), "--scratch", str(folder / "s"), "--results", str(folder), "--size-mb", "1"]
    ran = CliRunner().invoke(app, ["trace", "hta", *arguments, "--ranks", "1", *more])
    if ran.exception and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    assert not (folder / "s").exists()
    (written,) = (folder / "trace-vs-hta").iterdir()
    result = provenance.read(written)
    return {"notes": result.notes, **result.data["large"], "cases": result.data["cases"]}


def test_what_was_read_and_what_bounded_it(tmp_path: Path) -> None:
    data = call(tmp_path, interpreter(tmp_path, f"sleep 0.5; echo '{ANSWER}'"))
    assert data["hta"]["version"] == "0.5.0"  # type: ignore[index]
    assert str(data["notes"]).startswith("HTA was bounded to 20 GB on a machine with ")
    assert "would fill the bound" in str(data["notes"])
    answers = {row["case"]: row["ours_us"] for row in data["cases"]}  # type: ignore[attr-defined]
    assert answers["plain"] == answers["custom all-reduce"] == 960.0
    assert str(answers["rank 1 of 3 missing"]).startswith("refused: ranks are missing: rank-1")


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A child that keeps 200 MB is ended at 0.1 GB."""
    hog = "exec /usr/bin/env python3 -c 'import time; keep = bytearray(b\"x\" * 200_000_000); time.sleep(60)'"
    watched = hta._run_hta(interpreter(tmp_path, hog), {}, 0.1)
    assert watched["error"] == "ended at 0.1 GB"


def test_the_machine_keeps_some_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hta, "available_mb", lambda: 100.0)
    watched = hta._run_hta(interpreter(tmp_path, "exec sleep 60"), {}, 20.0)
    assert watched["error"].endswith("the machine had 1500 MB left")


def test_a_failure_is_part_of_the_result(tmp_path: Path) -> None:
    data = call(tmp_path, interpreter(tmp_path, "echo 'MemoryError: no more' >&2; exit 3"))
    assert data["hta"]["error"] == "exit 3: MemoryError: no more"  # type: ignore[index]
    assert "were more than it takes" in str(data["notes"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"--python": "/nonexistent"}, "--python /nonexistent: cannot be run (No such file or directory)"),
        ({"--python": "/bin/false"}, "--python /bin/false: cannot import HTA"),
        ({"--scratch": "/tmp"}, "--scratch /tmp: is there already"),
        ({"--scratch": "/dev/null/x"}, "--scratch /dev/null/x: cannot be written"),
        ({"--results": "/dev/null"}, "--results /dev/null: cannot be written"),
        ({"--size-mb": "1000000", "--ranks": "1024"}, "GB are needed"),
    ],
    ids=str,
)
def test_what_would_fail_later_is_found_first(
    tmp_path: Path, change: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hta, "compare", lambda *_: pytest.fail("the work began"))
    options = {
        "--python": str(interpreter(tmp_path, "exit 1")),
        "--scratch": str(tmp_path / "s"),
        "--results": str(tmp_path),
        **change,
    }
    ran = CliRunner().invoke(app, ["trace", "hta", *(word for pair in options.items() for word in pair)])
    assert isinstance(ran.exception, UserError), ran.output
    assert told in str(ran.exception)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "words", [("--memory-gb", "nan"), ("--memory-gb", "inf"), ("--ranks", "0"), ("--size-mb", "0")]
)
def test_numbers_out_of_range_are_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    needed = ["--python", os.devnull, "--scratch", str(tmp_path / "s"), "--results", str(tmp_path)]
    assert CliRunner().invoke(app, ["trace", "hta", *needed, *words]).exit_code == 2
