"""What a report is given: files of every kind, of none, and text that would like to be markup."""

import ast
import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from report_files.make import ab_data, cell, comparison, load_data, result
from report_files.read import Page
from typer.testing import CliRunner

from k25serve.bench.cli import app
from k25serve.bench.report import html, markdown
from k25serve.bench.report.build import build
from k25serve.bench.report.campaign import load_campaign
from k25serve.bench.report.document import Document, Section, Table
from k25serve.bench.report.sources import kinds, read_sources
from k25serve.server.errors import UserError

ROOT = Path(__file__).parents[3]
HOSTILE = "<script>alert(1)</script> <img src=http://evil/x onerror=alert(2)> \"' | `x` [a](http://evil) **b**"


def refused(*args: str) -> str:
    run = CliRunner().invoke(app, ["report", *args])
    assert isinstance(run.exception, UserError), run.output
    assert "\n" not in str(run.exception)
    return str(run.exception)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"kind": "weather"}', "kind 'weather' is not known"),
        ('{"kind": ["load"]}', "is not known"),
        ('{"a": 1}', "no result"),
        ("[]", "no result"),
        ("{", "not JSON"),
        ("", "not JSON"),
        ('{"kind": "load"}', "missing"),
    ],
)
def test_a_file_that_is_no_known_result_is_refused_by_name(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    result(tmp_path, "load", load_data(cell(1, 82.5)))
    out = tmp_path / "r.html"
    message = refused(str(tmp_path), "-o", str(out))
    assert message.startswith(f"{path}: ")
    assert told in message
    assert not out.exists()


def test_data_that_are_not_of_their_kind(tmp_path: Path) -> None:
    data = load_data(cell(1, 82.5))
    data["cells"][0]["tokens_per_s"] = "fast"
    path = result(tmp_path, "load", data)
    assert f"{path}: cells.0.tokens_per_s = 'fast'" in refused(str(path), "-o", str(tmp_path / "r.html"))


def test_paths(tmp_path: Path) -> None:
    out = str(tmp_path / "r.html")
    assert "not there" in refused(str(tmp_path / "none"), "-o", out)
    assert "no result files" in refused(str(tmp_path), "-o", out)
    path = result(tmp_path, "load", load_data(cell(1, 82.5)))
    assert "cannot be written" in refused(str(path), "-o", str(tmp_path / "no" / "r.html"))
    assert len(read_sources([path, tmp_path, path]).files) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("goal: ''\n", "goal"),
        ("goal: g\nspeed: 1\n", "speed"),
        ("goal: g\ntargets: [{what: w, concurrency: 1, gpu: g, gpus: 8}]\n", "more_than"),
        ("goal: g\ntargets: [{what: w, concurrency: 0, gpu: g, gpus: 8, at_least: 1}]\n", "concurrency"),
        ("- a\n", "mapping"),
    ],
)
def test_a_campaign_file_with_a_fault(tmp_path: Path, text: str, told: str) -> None:
    path = result(tmp_path, "load", load_data(cell(1, 82.5)))
    campaign = tmp_path / "c.yaml"
    campaign.write_text(text)
    message = refused(str(path), "-o", str(tmp_path / "r.html"), "--campaign", str(campaign))
    assert f"--campaign {campaign}" in message
    assert told in message


def test_a_campaign_of_ones_own(tmp_path: Path) -> None:
    campaign = tmp_path / "c.yaml"
    campaign.write_text("goal: mine\nruled_out: [{what: steam, evidence: slow, retry: never}]\n")
    path = result(tmp_path, "load", load_data(cell(1, 82.5)))
    page = Page(html.render(build(read_sources([path]), load_campaign(campaign), "t")))
    assert ["steam", "slow", "never"] in page.rows()
    assert "Targets" not in page.headings


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    result(tmp_path, "load", load_data(cell(1, 82.5), model=HOSTILE, endpoint=HOSTILE), notes=HOSTILE, command=HOSTILE)
    result(tmp_path, "ab", ab_data(comparison(1, (1.0, 2.0), (3.0, 4.0)), verdict=HOSTILE))
    document = build(read_sources([tmp_path]), load_campaign(None), HOSTILE)
    text = html.render(document)
    page = Page(text)
    assert not {"script", "img", "iframe", "object"} & set(page.tags)
    assert page.tags.count("link") == 1
    loads = [(tag, value) for tag, name, value in page.attributes if name in ("src", "href", "data", "action")]
    assert all(value == "data:," or value.startswith("#") for _, value in loads)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.text.count(HOSTILE) >= 4
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(document))
    inside = [child for token in tokens for child in token.children or ()]
    assert {token.type for token in inside} == {"text", "strong_open", "strong_close"}
    assert [token.type for token in inside].count("strong_open") == 1  # the verdict
    assert not {"html_block", "fence", "code_block"} & {token.type for token in tokens}
    assert sum(HOSTILE in token.content.replace("\\", "") for token in tokens) >= 4


def test_a_bar_in_markdown_makes_no_cell() -> None:
    document = Document("t", "v.", "m", (Section("k", "S", (Table(("a", "b"), (("x | y", "1\n2"),)),)),))
    assert "| x \\| y | 1 2 |" in markdown.render(document)


def test_every_kind_that_is_written_is_known() -> None:
    """In the code, and among this project's own results."""
    written = set()
    for folder in ("bench", "server", "drafters", "deploy"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                    if name in ("Recorder", "start_record"):
                        written.add(node.args[0].value)
    assert {"ab", "load", "drafter-compare"} <= written
    written |= {json.loads(path.read_text())["kind"] for path in (ROOT / "bench/results").rglob("2*.json")}
    assert written - kinds().keys() == set()
