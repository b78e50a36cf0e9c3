"""What a reader of a report sees: tables, the page, the JSON, the comparison of two deployments, the command line."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from k25serve.bench import provenance
from k25serve.bench.cli import app
from k25serve.bench.trace import diff, page, synthetic, table
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import TraceError
from k25serve.bench.trace.report import TraceReport
from k25serve.bench.trace.synthetic import NCCL
from k25serve.server.errors import UserError

CUSTOM = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(sglang::RankData*, sglang::RankSignals)"


def deployment(folder: Path, *, fast: bool = False) -> Path:
    folder.mkdir()
    for rank in range(2):
        rows = synthetic.decode_steps(5, 4, late_us=10.0 * rank)
        if fast:  # the same steps with a custom all-reduce of half the length
            rows = (row._replace(name=CUSTOM, dur=row.dur / 2) if row.name == NCCL else row for row in rows)
        synthetic.write(folder / f"9-TP-{rank}.trace.json.gz", rows)
    return folder


@pytest.fixture
def report(tmp_path: Path) -> TraceReport:
    return analyse([deployment(tmp_path / "a")], title="deployment <A> & co")


def printed(show: object, *reports: TraceReport) -> str:
    out = StringIO()
    show(*reports, Console(file=out, width=200))  # type: ignore[operator]
    return out.getvalue()


def test_headline_names_each_share(report: TraceReport) -> None:
    line = table.headline_text(report)
    assert line.startswith("all-reduce in decode: ")
    assert re.findall(
        r"[\d.]+% of (?:summed kernel time|busy time \(union\)|the step \(union\)|the step exposed)", line
    )


def test_tables_hold_ranks_classes_and_waits(report: TraceReport) -> None:
    text = printed(table.show, report)
    for part in ("moe_gemm", "exposed ms", "nccl", "TP-1", "TP-1 is waited for most", "median", "not told"):
        assert part in text


class Page(HTMLParser):
    """Collects bars, their notes, the text, and what the page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.rects: list[dict[str, str | None]] = []
        self.text: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "rect":
            self.rects.append(dict(attrs))
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_draws_each_step_and_the_timeline(report: TraceReport) -> None:
    text = page.render(report)
    parsed = Page()
    parsed.feed(text)
    assert parsed.fetched == []
    assert "deployment <A> & co" in parsed.text
    bars, timeline = (ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    space = "{http://www.w3.org/2000/svg}"
    assert len(bars.findall(f"{space}rect")) == 5 * 6  # steps x classes
    assert len(timeline.findall(f"{space}rect")) == 4 * 5 + 1  # device events of the step
    columns: dict[str, float] = {}
    for rect in bars.findall(f"{space}rect"):
        columns[rect.get("x", "")] = columns.get(rect.get("x", ""), 0.0) + float(rect.get("height", 0))
    assert list(columns.values()) == pytest.approx([page.BAR_HEIGHT] * 5, abs=0.1)
    assert all(
        float(rect.get("x", 0)) + float(rect.get("width", 0)) <= page.WIDTH + 1
        for rect in timeline.iter(f"{space}rect")
    )


def test_every_class_has_a_colour() -> None:
    assert tuple(page.COLOURS) == page.CLASSES
    assert len(set(page.COLOURS.values())) == len(page.COLOURS)


def test_comparison_names_what_changed(tmp_path: Path, report: TraceReport) -> None:
    other = analyse([deployment(tmp_path / "b", fast=True)])
    rows = {row.name: row for row in diff.compare(report, other)}
    assert rows["all_reduce sum"].change == pytest.approx(-0.5 * rows["all_reduce sum"].a)
    assert rows["gemm sum"].change == 0
    assert rows["all_reduce via nccl"].b == 0
    assert rows["all_reduce via custom"].a == 0
    assert rows["all-reduce calls (count)"].a == rows["all-reduce calls (count)"].b == 4
    text = printed(diff.show, report, other)
    assert "-50.0%" in text
    assert "new" in text


def test_command_writes_page_and_result(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "a")
    outputs = ["--html", str(tmp_path / "p.html"), "--results", str(tmp_path / "results")]
    ran = CliRunner().invoke(app, ["trace", str(folder), *outputs])
    assert ran.exit_code == 0, ran.output
    assert "of summed kernel time" in ran.output
    assert "<svg" in (tmp_path / "p.html").read_text()
    (written,) = (tmp_path / "results" / "trace").iterdir()
    result = provenance.read(written)
    assert set(result.inputs) == {"9-TP-0.trace.json.gz", "9-TP-1.trace.json.gz"}
    assert TraceReport.model_validate(result.data) == analyse([folder])
    again = CliRunner().invoke(app, ["trace", "diff", str(written), str(folder)])
    assert again.exit_code == 0, again.output
    assert "+0.000" in again.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--html", "/nonexistent/p.html"],
            "--html /nonexistent/p.html: cannot be written (No such file or directory)",
        ),
        (["--html", "/"], "--html /: cannot be written (Is a directory)"),
        (["--results", "/dev/null"], "--results /dev/null: cannot be written (Not a directory)"),
    ],
    ids=str,
)
def test_an_output_that_cannot_be_written_ends_it_before_reading(
    tmp_path: Path, words: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = deployment(tmp_path / "a")
    monkeypatch.setattr("k25serve.bench.trace.analyse.analyse", lambda *_, **__: pytest.fail("the work began"))
    ran = CliRunner().invoke(app, ["trace", str(folder), *words])
    assert isinstance(ran.exception, UserError), ran.output
    assert told in str(ran.exception)


def test_an_output_that_is_there_stays_until_the_report_is_done(tmp_path: Path) -> None:
    page_file = tmp_path / "p.html"
    page_file.write_text("the last one")
    ran = CliRunner().invoke(app, ["trace", str(tmp_path / "nowhere"), "--html", str(page_file)])
    assert isinstance(ran.exception, TraceError)
    assert page_file.read_text() == "the last one"


@pytest.mark.parametrize("words", [["--ranks", "1024", "--size-mb", "1000000"], ["--ranks", "1"]])
def test_synth_checks_its_folder(tmp_path: Path, words: list[str]) -> None:
    folder = tmp_path if len(words) > 2 else tmp_path / "nowhere"
    ran = CliRunner().invoke(app, ["trace", "synth", str(folder), *words])
    assert isinstance(ran.exception, UserError)
    assert ("GB are free" if len(words) > 2 else "no such folder") in str(ran.exception)
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_report(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "a")
    ran = CliRunner().invoke(app, ["trace", "--json", str(folder)])
    assert TraceReport.model_validate_json(ran.stdout) == analyse([folder])


def test_a_result_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = provenance.write(provenance.Recorder("comm").finish({"x": 1}), tmp_path)
    with pytest.raises(TraceError, match="a result of kind 'comm'"):
        diff.load(path)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("mode", "idle", "no idle steps of rank TP-"),
        ("headline", None, "headline"),
        ("ranks", [], "no decode steps"),
        ("extra", 1, "unknown key 'extra'"),
    ],
)
def test_a_result_that_was_changed_is_refused(
    tmp_path: Path, report: TraceReport, key: str, value: object, told: str
) -> None:
    data = {**report.model_dump(mode="json"), key: value}
    path = provenance.write(provenance.Recorder("trace").finish(data), tmp_path)
    with pytest.raises(TraceError, match=told) as caught:
        diff.load(path)
    assert str(caught.value).startswith(f"{path}: not a result of `bench trace`: ")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TraceError, match="not a result"):
        diff.load(path)


def test_synth_command(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["trace", "synth", str(tmp_path), "--ranks", "2", "--size-mb", "1"])
    assert ran.exit_code == 0
    report = analyse([tmp_path])
    assert [rank.bytes_read >= 1_000_000 for rank in report.ranks] == [True, True]
    assert report.ranks[0].modes[0].all_reduce_calls == 61
    assert report.warnings == ()
