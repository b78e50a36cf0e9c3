"""Raw results of another machine become result files here."""

import json
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench import provenance
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.proof import main
from k25serve.bench.gpu.report import finish

ROW = {
    "batch": 4,
    "prefix": 1024,
    "tokens_per_second": 123.4,
    "steps_by_mode": {"target_verify": {"steps": 9, "mean_us": 1234.5}},
}


def raw(path: Path, kind: str, data: dict[str, Any]) -> Path:
    result = provenance.Recorder(kind).finish({"tp": 1, "failed": [], **data})
    path.write_text(result.model_copy(update={"git": "", "notes": ""}).model_dump_json(by_alias=True))
    return path


def test_a_raw_result_gets_this_checkouts_state_and_a_report(tmp_path: Path) -> None:
    file = raw(tmp_path / "speed.json", "gpu-speed", {"arms": {"eagle3": [ROW]}})
    assert main(["--finish", str(file), "--results", str(tmp_path / "results"), "--notes", "why"]) == 0
    (path,) = (tmp_path / "results" / "gpu-speed").glob("*.json")
    assert provenance.read(path).git == provenance.Recorder("x").finish({}).git
    report = path.with_suffix(".md").read_text()
    assert "| 1024 | 4 | 123 | 1234 |" in report
    assert "- why" in report


def test_what_failed_stands_in_the_report(tmp_path: Path) -> None:
    file = raw(tmp_path / "speed.json", "gpu-speed", {"arms": {}, "failed": ["ngram: it ended\nlog"]})
    main(["--finish", str(file), "--results", str(tmp_path / "results")])
    (report,) = (tmp_path / "results" / "gpu-speed").glob("*.md")
    assert "- FAILED: ngram: it ended\n" in report.read_text()


@pytest.mark.parametrize(
    ("kind", "arms"),
    [
        ("gpu-speed", {"eagle3": [ROW], "none": []}),
        ("gpu-trace", {"eagle3": {"report": {"ranks": [{}]}}, "none": {"report": {"ranks": []}}}),
    ],
)
def test_an_arm_without_rows_is_refused_by_name(
    kind: str, arms: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = raw(tmp_path / "x.json", kind, {"arms": arms})
    with pytest.raises(SystemExit) as ended:
        main(["--finish", str(file), "--results", str(tmp_path / "results")])
    assert ended.value.code == 2
    assert f"{file}: arm 'none' has no rows; measure it again" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("content", ["{}", json.dumps({"kind": "gpu-speed"}), "no json"])
def test_another_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(ProofError, match=r"other\.json is not a raw result of a stage"):
        finish(file, tmp_path, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--stage is missing"),
        (["--stage", "speed", "--arms", "foo"], "--arms has 'foo'; choose from none"),
        (["--stage", "parity", "--engine-args", "'x"], "--engine-args"),
        (["--finish", "/no/such.json"], "/no/such.json: No such file"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--out", str(tmp_path / "out"), *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_of_an_earlier_run_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--stage", "trace"])
    assert "give another folder" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["gpu-speed", "gpu-trace", "gpu-parity", "gpu-kernels", "gpu-tp"])
def test_data_of_another_layout_leaves_nothing(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = raw(tmp_path / "x.json", kind, {"arms": [1]})
    with pytest.raises(SystemExit):
        main(["--finish", str(file), "--results", str(tmp_path / "results")])
    assert "is not a raw result of a stage" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
