"""The figures that a report shows are those of the files: in the page, in its charts' tables, in Markdown."""

import hashlib
import math
from pathlib import Path

import pytest
from report_files.make import (
    CPU,
    EIGHT,
    STARTED,
    ab_data,
    cell,
    comparison,
    invalid,
    load_data,
    result,
    speed_data,
    spread,
)  # fmt: skip
from report_files.read import Page
from typer.testing import CliRunner

from k25serve.bench.cli import app
from k25serve.bench.load.record import Cell


@pytest.fixture
def made(tmp_path: Path):
    def report(*extra: str) -> tuple[Page, str]:
        out, markdown = tmp_path / "r.html", tmp_path / "r.md"
        args = ["report", str(tmp_path / "results"), "-o", str(out), "--markdown", str(markdown), *extra]
        run = CliRunner().invoke(app, args)
        assert run.exit_code == 0, run.output
        return Page(out.read_text()), markdown.read_text()

    return report


def test_a_load_run(tmp_path: Path, made) -> None:
    cells = [cell(1, 82.51), cell(128, 1536.4, tpot_s=spread(0.0803, 0.0911))]
    code = Cell(level=1, prompt_class="code", phase="natural")
    cells.append(cell(1, 60.0, cell=code, accept_length=2.884, position_rate=(0.81, 0.62)))
    image = Cell(level=1, prompt_class="image", phase="natural")
    cells.append(cell(1, 60.0, cell=image, accept_length=1.937))
    result(tmp_path / "results", "load", load_data(*cells), machine=EIGHT)
    page, markdown = made()
    for rows in (page.rows(), _markdown_rows(markdown)):
        assert ["1", "82.5"] in rows
        assert ["128", "1,536"] in rows
        assert ["1", "12.1 (12.1 to 15.2)"] in rows  # TPOT, ms, to p90
        assert ["128", "80.3 (80.3 to 91.1)"] in rows
        assert ["1", "234 (234 to 346)"] in rows  # TTFT, ms
        assert ["1", "0.81"] in rows
        assert ["2", "0.62"] in rows
        assert ["code, C=1", "2.88", "8", "800"] in rows
        assert ["image", "image, C=1", "1.94"] in rows
        frontier = next(row for row in rows if row[1:2] == ["C=128"])
        assert frontier[2:] == ["12.5", "192"]  # 1 / 80.3 ms; 1536.4 over eight GPUs
        assert [
            "single stream, C=1",
            "over 82.5",
            "82.5",
            "11-30 12:00:00 http://box/v1/chat/completions",
            "met",
        ] in rows
        assert any(row[0] == "128 concurrent requests, C=128" and row[-1] == "met" for row in rows)


def test_a_target_is_not_met_from_below_and_not_judged_elsewhere(tmp_path: Path, made) -> None:
    result(tmp_path / "results", "load", load_data(cell(1, 82.5), cell(128, 1535.9)), machine=EIGHT)
    assert [row[-1] for row in made()[0].tables[0][1:]] == ["not met", "not met"]
    (tmp_path / "results" / "load").rename(tmp_path / "old")
    result(tmp_path / "results", "load", load_data(cell(1, 999.0), cell(128, 9999.0)), machine=CPU)
    assert [row[-1] for row in made()[0].tables[0][1:]] == ["not measured", "not measured"]


def test_an_ab(tmp_path: Path, made) -> None:
    a, b = (80.0, 82.0, 81.0), (100.0, 104.0, 101.0)
    result(tmp_path / "results", "ab", ab_data(comparison(1, a, b)))
    page, markdown = made()
    arms = "A is plain with kimi-k2.5, B is eagle with kimi-k2.5 on Test CPU (4 cores, no GPU)"
    first = f"B is faster than A across boots: +25.0 % ({arms})."
    assert page.text.index(first) < page.text.index("1 result files")
    assert markdown.splitlines()[2] == f"**{first}**"
    low, high = _t_interval(a)
    for rows in (page.rows(), _markdown_rows(markdown)):
        assert ["tok/s C=1 mixed", "+25.0 %", "+11.0 % to +41.0 %", "faster"] in rows
        assert ["C=1 mixed", "tok/s", "81", "102", "0.0123", "0.0246", "+7.0 %"] in rows
        shown = next(row for row in rows if row[0] == "1" and "to" in row[1])
        assert shown[1] == f"{math.prod(a) ** (1 / 3):.1f} ({low:.1f} to {high:.1f})"
        assert ["B: code, C=1", "2.88", "8", "800"] in rows
        assert ["3", "0.454"] in rows
        assert ["A and B", "24", "7", "token", "0.375"] in rows


def test_a_gpu_stage(tmp_path: Path, made) -> None:
    result(tmp_path / "results", "gpu-speed", speed_data(), versions={"sglang": "0.5.17"})
    page, _ = made()
    assert ["4", "2,286", "2,696"] in page.rows()
    assert ["4", "1.39", "0.803"] in page.rows()  # (1200 + 600 + 609) us over 3 tokens; prefill is no part
    assert ["4", "1.73", "1.57"] in page.rows()
    assert ["1024", "4", "2.41", "2.65", "+10%"] in page.rows()


def test_missing_sections_are_named_and_not_made_up(tmp_path: Path, made) -> None:
    result(tmp_path / "results", "load", load_data(cell(1, 82.5)))
    page, markdown = made()
    assert "Parity" not in page.headings
    assert "Where a step's time goes" not in page.headings
    told = page.text[page.text.index("Parity:") :]
    assert told.startswith("Parity: k25serve bench ab")
    assert "- Where a step's time goes: k25serve bench trace" in markdown
    assert "No verdict: no A/B is among these files" in markdown


def test_an_invalid_run_has_no_figures(tmp_path: Path, made) -> None:
    result(tmp_path / "results", "load", load_data(cell(1, 77.7), **invalid("short")))
    page, markdown = made()
    assert "77.7" not in page.text + markdown
    assert "Throughput against concurrency" not in page.headings
    assert "half of the tokens; its figures are left out" in page.text


def test_mixed_models_engines_and_machines_are_told(tmp_path: Path, made) -> None:
    folder = tmp_path / "results"
    result(folder, "load", load_data(cell(1, 82.5)), machine=EIGHT)
    assert "are mixed here" not in made()[0].text
    vllm = {"owned_by": "vllm", "version": "0.16.0"}
    other = load_data(cell(1, 70.0), model="deepseek", server=vllm)
    result(folder, "load", other, started=STARTED.replace(hour=13))
    text = made()[0].text
    for what in ("models", "engines", "machines"):
        assert f"Several {what} are mixed here" in text
    assert "deepseek; kimi-k2.5" in text
    assert "sglang 0.5.23; vllm 0.16.0" in text


def test_provenance(tmp_path: Path, made) -> None:
    path = result(tmp_path / "results", "load", load_data(cell(1, 82.5)), dirty=True, notes="a note")
    page, _ = made()
    name = f"load {path.name}"
    where = "Test CPU (4 cores, no GPU)"
    assert [name, "2026-11-30 12:00:00", "1", where, "sglang 0.5.23", "kimi-k2.5"] in page.rows()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    assert [name, "aaaaaaaaaaaa + changes", digest, "k25serve bench load"] in page.rows()
    assert "a note" in page.text


def test_the_state(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    result(folder, "ab", ab_data(comparison(1, (80.0, 81.0), (99.0, 101.0))))
    unfinished = folder / "ab" / "unfinished-0123"
    unfinished.mkdir()
    (unfinished / "turn-000.json").write_text("{}")
    run = CliRunner().invoke(app, ["report", "state", str(folder)])
    assert run.exit_code == 0, run.output
    parts = {part.splitlines()[0]: part for part in run.output.split("\n## ")[1:]}
    assert list(parts) == [
        "Goal", "Constraints", "Discoveries", "Ruled out, and when to try again", "Done", "Running", "Next", "Files",
    ]  # fmt: skip
    assert "B is faster than A across boots" in parts["Discoveries"]
    assert "k25serve bench ab" in parts["Done"]
    assert "unfinished-0123: 1 turns ended" in parts["Running"]
    assert "Not measured yet: Where a step's time goes" in parts["Next"]
    assert "1,007 us at 16" in parts["Ruled out, and when to try again"]


def _markdown_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")] for line in lines]


def _t_interval(values: tuple[float, ...]) -> tuple[float, float]:
    """Of three values' geometric mean; 4.303 is the 97.5 % point of t with 2 degrees of freedom."""
    logs = [math.log(value) for value in values]
    mean = sum(logs) / 3
    error = math.sqrt(sum((one - mean) ** 2 for one in logs) / 2 / 3)
    return math.exp(mean - 4.302653 * error), math.exp(mean + 4.302653 * error)
