"""The runbook keeps up: its commands exist, its links lead somewhere, its table is what the planner says."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from observing.queries import rules
from typer.core import TyperGroup

from k25serve.bench.default_group import DefaultGroup
from k25serve.bench.plan.acceptance import load_accept
from k25serve.bench.plan.architecture import load_architecture
from k25serve.bench.plan.calibration import load_calibration
from k25serve.bench.plan.grid import predict_grid
from k25serve.bench.plan.model import Planner
from k25serve.deploy.doctor.checks.memory import kv_bytes_per_token
from k25serve.server.cli import app
from k25serve.server.config import load_profile, profile_names

RUNBOOK = Path(__file__).parents[2] / "deploy" / "RUNBOOK.md"
TEXT = RUNBOOK.read_text()
CARDS, CARD_BYTES, MODEL_BYTES = 8, 96e9, 547e9
K = 3
CONCURRENCY = (1, 2, 4, 8, 16)


def commands() -> list[str]:
    """Every `k25serve ...`, in a block or in a line."""
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
    return sorted({line for line in (*blocks, *inline) if line.startswith("k25serve ")})


def anchors() -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("line", commands())
def test_each_command_is_understood(line: str) -> None:
    """The command line's own parser takes it: the command is there, and so is each option."""
    command, path = typer.main.get_command(app), "k25serve"
    words = shlex.split(line, comments=True)[1:]
    while isinstance(command, TyperGroup) and words and words[0] not in ("--help", "--version"):
        if isinstance(command, DefaultGroup) and words[0] not in command.commands:
            words.insert(0, next(iter(command.commands)))
        path, command = f"{path} {words[0]}", command.get_command(typer.Context(command), words.pop(0))
        assert command is not None, line
    if words in ([], ["--help"]):
        assert path != "k25serve", line  # the command alone, named in a sentence
    elif words == ["--version"]:
        with pytest.raises(typer.Exit):
            command.make_context(path, words)
    else:
        left = command.make_context(path, words).args
        assert left == [] or command.context_settings["ignore_unknown_options"]


def test_there_are_commands() -> None:
    assert len(commands()) > 10


def test_each_profile_named_is_packaged() -> None:
    named = set(re.findall(r"k25-int4-\w+(?:-[a-z]\w*)?", TEXT))
    assert named <= set(profile_names())


def test_each_file_named_is_there() -> None:
    for path in re.findall(r"\b(?:deploy|tests)/[\w./-]+\w", TEXT):
        assert (RUNBOOK.parents[1] / path).exists(), path


def test_each_link_leads_somewhere() -> None:
    for link in re.findall(r"\]\(#([^)]*)\)", TEXT):
        assert link in anchors()


def test_each_alert_has_its_section() -> None:
    for rule in rules("alerts"):
        name, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert name == RUNBOOK.name
        assert anchor in anchors(), f"{rule['alert']}: no section {anchor}"
    sections = re.findall(r"^### (K25\w+)$", TEXT, re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules("alerts")]


def rows() -> Iterator[tuple[int, int, list[str]]]:
    """(tokens, requests that fit, speed-up at each of CONCURRENCY) of the sizing table."""
    for row in re.findall(r"^\| ([\d,]+) \| (\d+) \| (.+) \|$", TEXT, re.MULTILINE):
        yield int(row[0].replace(",", "")), int(row[1]), row[2].split(" | ")


def test_sizing() -> None:
    profile = load_profile("k25-int4-sm120x8", need_models=False)
    token_bytes = kv_bytes_per_token(profile, load_architecture("kimi-k2.5").model_dump())
    assert f"{token_bytes:,} bytes a token" in TEXT
    tokens = (profile.engine.mem_fraction_static * CARD_BYTES - MODEL_BYTES / CARDS) / token_bytes
    assert "at most about 256,000 tokens" in TEXT
    assert round(tokens, -3) in (256_000, 257_000)
    planner = Planner.build(load_calibration("rtx6kpro-k26-v4"), verify_rows="tokens")
    golden = load_accept("golden")
    table = list(rows())
    assert len(table) == 5
    for context, fit, speed_ups in table:
        assert fit == tokens // context
        corners = [(concurrency, context) for concurrency in CONCURRENCY]
        cells, _ = predict_grid(planner, corners, golden, [K], golden, 0)
        assert speed_ups == [f"{cell.speedup:.2f}" if cell.concurrency <= fit else "-" for cell in cells], context
    (elsewhere,), _ = predict_grid(planner, [(16, 65_536)], golden, [K], golden, 0)
    assert f"at 16 of 65,536 tokens it would be {elsewhere.speedup:.2f}." in TEXT
