"""The console script as a user calls it: every command is there, every mistake is short and ends with exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("k25serve")
COMMANDS = (
    *("serve", "engine", "gateway", "demo", "key"),
    *("drafter check", "drafter adapt", "drafter list", "drafter show", "drafter gate", "drafter compare"),
    *("bench trace", "bench comm", "bench plan"),
)


def call(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    answer = call(*command.split(), "--help")
    assert answer.returncode == 0, answer.stderr
    assert f"Usage: k25serve {command}" in answer.stdout


def test_version_names_the_engine() -> None:
    assert [line.split()[0] for line in call("--version").stdout.splitlines()] == ["k25serve", "sglang", "torch"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("serve", "-p", "cpu-tin"), "profile 'cpu-tin' not found"),
        (("serve", "-p", "cpu-tiny", "--set", "engine.prot=1"), "did you mean 'port'"),
        (("gateway", "-p", "cpu-tiny", "--set", "gateway.keys_file=/nonexistent"), "keys_file /nonexistent"),
        (("demo", "--question", " "), "--question is empty"),
        (("key", "a b"), "name 'a b'"),
        (("bench", "trace", "/nonexistent"), "/nonexistent"),
        (("bench", "plan", "-c", "1", "--results", "/dev/null"), "/dev/null"),
        (("bench", "plan", "--accept", "registry:a:b:c"), "registry:a:b:c"),
        (("drafter", "check", "--drafter", "/nonexistent", "--target", "/nonexistent"), "/nonexistent"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], told: str) -> None:
    answer = call(*words)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    (line,) = answer.stderr.splitlines()
    assert line.startswith("k25serve: error: ")
    assert told in line


@pytest.mark.parametrize("words", [("serve",), ("serve", "--bogus"), ("nocommand",), ("bench", "comm", "--ranks", "0")])
def test_a_wrong_call_ends_with_2_and_no_traceback(words: tuple[str, ...]) -> None:
    answer = call(*words)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr


def test_closed_standard_streams() -> None:
    answer = subprocess.run(
        ["sh", "-c", f"{COMMAND} serve -p nowhere >&- 2>&-"], check=False, capture_output=True, timeout=60
    )
    assert answer.returncode == 2
