"""The console script as a user calls it: every command is there, every mistake is short and ends with exit code 2."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line.call import call

from k25serve.server.cli import ELSEWHERE

COMMAND = Path(sys.executable).with_name("k25serve")
COMMANDS = (
    *("serve", "engine", "gateway", "demo", "key"),
    *("drafter check", "drafter adapt", "drafter list", "drafter show", "drafter gate", "drafter compare"),
    *("bench trace", "bench comm", "bench plan"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    answer = call(*command.split(), "--help")
    assert answer.returncode == 0, answer.stderr
    assert f"Usage: k25serve {command}" in answer.stdout


def test_the_whole_help_names_every_group() -> None:
    told = call("--help").stdout
    for name in (*COMMANDS[:5], *ELSEWHERE):
        assert re.search(rf"^│ {name} +\w", told, re.MULTILINE), name


def test_version_names_the_engine() -> None:
    """By the script itself; tests below call its entry point here."""
    answer = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["k25serve", "sglang", "torch"]


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("serve",), "--profile NAME|FILE is missing; `k25serve serve --help`"),
        (("serve", "--bogus"), "no such option: --bogus; `k25serve serve --help`"),
        (("serve", "-p"), "option '-p' requires an argument"),
        (("serve", "extra", "-p", "x"), "unexpected extra argument(s) (extra)"),
        (("nocommand",), "no such command 'nocommand'; `k25serve --help`"),
        (("bench", "comm", "--ranks", "0"), "--ranks 0: must be greater than or equal to 2; `k25serve bench comm run"),
        (("bench", "comm", "--ranks", "two"), "--ranks two: must be a valid integer; "),
        (("bench", "plan", "-k", "65"), "-k 65: must be less than or equal to 64"),
        (("bench", "plan", "validate", "--bar", "x\ny"), r"--bar x\ny: must be a valid number"),
        (("bench", "trace"), "DIR|FILES is missing"),
        (
            ("drafter", "adapt", "magic", "--drafter", "x", "--out", "y"),
            "ADAPTER magic: 'magic' is not one of 'kimi_k2'",
        ),
        (("drafter", "adapt"), "ADAPTER is missing; choose from: kimi_k2, "),
    ],
)
def test_a_wrong_call_is_one_line_with_option_value_and_help(words: tuple[str, ...], told: str) -> None:
    answer = call(*words)
    assert answer.returncode == 2
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("k25serve: error: ")
    assert told in line
    assert line.endswith(" --help` says what it takes")


@pytest.mark.parametrize("words", [(), ("bench",), ("drafter",)])
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    answer = call(*words)
    assert answer.returncode == 2
    assert "Usage: k25serve" in answer.stdout + answer.stderr
    assert "error" not in answer.stderr


def test_an_exit_code_of_a_command_is_kept() -> None:
    assert call("bench", "plan", "validate", "--bar", "0.001").returncode == 1


def test_closed_standard_streams() -> None:
    answer = subprocess.run(
        ["sh", "-c", f"{COMMAND} serve -p nowhere >&- 2>&-"], check=False, capture_output=True, timeout=60
    )
    assert answer.returncode == 2
