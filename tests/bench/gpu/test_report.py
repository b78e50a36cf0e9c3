"""Raw results of another machine become result files here."""

import json
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench import provenance
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.proof import main

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
    file = raw(tmp_path / "speed.json", "gpu-speed", {"arms": {"eagle3": [ROW], "none": []}})
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


@pytest.mark.parametrize("content", ["{}", json.dumps({"kind": "gpu-speed"}), "no json"])
def test_another_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(ProofError, match=r"other\.json is not a raw result of a stage"):
        main(["--finish", str(file), "--results", str(tmp_path)])
