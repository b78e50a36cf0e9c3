"""Prometheus's own tool on the rules: they parse, and give and alert what they should."""

import subprocess
from pathlib import Path

import pytest
from observing.queries import RULES, rules
from observing.server import require

HERE = Path(__file__).parent


def promtool(*arguments: str | Path) -> None:
    run = subprocess.run([require("promtool"), *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_rules_parse() -> None:
    promtool("check", "rules", *sorted(RULES.glob("*.yaml")))


@pytest.mark.parametrize("path", sorted(HERE.glob("*.test.yaml")), ids=lambda path: path.name.partition(".")[0])
def test_rules_say_what_they_should(path: Path) -> None:
    promtool("test", "rules", path)


def test_each_alert_is_tested_firing() -> None:
    tested = "".join(path.read_text() for path in HERE.glob("*.test.yaml"))
    for rule in rules("alerts"):
        assert f"alertname: {rule['alert']}\n" in tested, f"{rule['alert']} has no test in which it fires"
        assert f"alertname: {rule['alert']}, eval_time" in tested, f"{rule['alert']} has no test in which it doesn't"
