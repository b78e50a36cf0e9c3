"""`bench plan` as a user calls it."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from typer.testing import CliRunner

from k25serve.bench import provenance
from k25serve.bench.cli import app
from k25serve.bench.comm.report import CommReport
from k25serve.bench.plan import commands
from k25serve.bench.plan.calibration import load_calibration
from k25serve.bench.plan.links import load_link
from k25serve.server.errors import UserError


def run(*arguments: str) -> str:
    ran = CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "200"})
    assert ran.exit_code == 0, ran.output
    return " ".join(ran.output.split())


def test_predict_compares_eagle_ngram_and_none(tmp_path: Path) -> None:
    text = run("-c", "1", "-c", "128", "--context", "0", "--context", "131072", "-k", "3", "--results", str(tmp_path))
    for word in ("pays", "costs", "ngram", "eagle3", "none", "rtx6kpro-k26-v4"):
        assert word in text
    (written,) = (tmp_path / "plan").iterdir()
    data = provenance.read(written).data
    assert [(row["concurrency"], row["context"]) for row in data["best"]] == [
        (1, 0),
        (128, 0),
        (1, 131072),
        (128, 131072),
    ]
    assert len(data["cells"]) == 4 * 2
    assert all(row["low"] <= row["speedup"] <= row["high"] for row in data["cells"])
    assert data["calibration"]["source"].startswith("https://")


def test_explain_shows_each_term() -> None:
    text = run("explain", "-c", "8", "--context", "16384", "-k", "3")
    for word in ("fixed", "experts", "all-reduce", "attention", "draft", "plain step", "cycle", "breaks even"):
        assert word in text


def test_validate_passes_and_writes(tmp_path: Path) -> None:
    text = run("validate", "--results", str(tmp_path))
    assert "bar 10%: held" in text
    (written,) = (tmp_path / "plan-validate").iterdir()
    checks = provenance.read(written).data["checks"]
    assert checks[0]["mean_error"] <= checks[0]["bar"] == 0.10


def own_machine(folder: Path, points: list[dict[str, Any]]) -> str:
    """A file of the form that `bench/gpu` writes."""
    machine = load_calibration("rtx6kpro-k26-v4").model_dump(mode="json") | {"name": "own", "points": points}
    (folder / "own.json").write_bytes(orjson.dumps(machine))
    return str(folder / "own.json")


PLAIN = [{"concurrency": c, "context": 0, "tok_s": 100.0 * c**0.8} for c in (1, 2, 4, 8)]
DRAFTED = [{"concurrency": c, "context": 0, "tok_s": 150.0 * c**0.8, "k": 3, "accept_rate": 0.5} for c in (1, 2, 4)]


def test_validate_takes_a_machine_of_ones_own(tmp_path: Path) -> None:
    """There is no other run of it to predict, and no longer context."""
    run("validate", "-m", own_machine(tmp_path, PLAIN + DRAFTED), "--bar", "10", "--results", str(tmp_path))
    (written,) = (tmp_path / "plan-validate").iterdir()
    checks = provenance.read(written).data["checks"]
    assert [check["name"] for check in checks] == ["columns of context 0", "columns of context 0, whole column"]
    assert [cell["concurrency"] for cell in checks[0]["cells"]] == [1, 2, 4]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (PLAIN, "points: 0 with k, accept_rate and context 0; leaving one out takes 2"),
        (PLAIN + [one | {"accept_rate": None} for one in DRAFTED], "points: 0 with k, accept_rate"),
        (
            PLAIN + [one | {"concurrency": 7 * one["concurrency"]} for one in DRAFTED],
            "concurrency 7, context 0 has k 3",
        ),
        (PLAIN + DRAFTED[:2] + [DRAFTED[2] | {"k": 5}], "points: k 3 and k 5"),
    ],
)
def test_validate_says_what_a_machine_lacks(points: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["plan", "validate", "-m", own_machine(tmp_path, points)])
    assert isinstance(ran.exception, UserError), ran.exception
    assert said in str(ran.exception)


def test_validate_fails_above_the_bar() -> None:
    ran = CliRunner().invoke(app, ["plan", "validate", "--bar", "0.01"])
    assert ran.exit_code == 1
    assert "FAILED" in ran.output


def test_ngram_and_layout_and_roofline() -> None:
    assert "tokens a step" in run("ngram")
    assert "A projection" in run("layout", "-c", "1", "-c", "64")
    text = run("roofline")
    assert "efficiency 31" in text
    assert "largest gap: all-reduce" in text


def test_roofline_from_a_trace(tmp_path: Path) -> None:
    from k25serve.bench.trace import synthetic

    trace = synthetic.write(tmp_path / "a.json", synthetic.decode_steps(2, 61))
    ran = CliRunner().invoke(app, ["trace", str(trace), "--results", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    (result,) = (tmp_path / "trace").iterdir()
    assert "communication, exposed: 2.44 ms" in run("roofline", "--trace", str(result))


def test_adaptive_writes_what_sglang_reads(tmp_path: Path) -> None:
    path = tmp_path / "adaptive.json"
    assert "batch 1:" in run("adaptive", str(path), "--accept", "rtx6kpro")
    config = orjson.loads(path.read_bytes())
    assert all(0 in slot["candidate_steps"] for size, slot in config.items() if size.isdigit())
    assert config["step_costs"]["steps"][0] == 0


def test_own_machine_from_a_file(tmp_path: Path) -> None:
    mine = load_calibration("rtx6kpro-k26-v4").model_dump(mode="json") | {"name": "mine"}
    path = tmp_path / "mine.yaml"
    path.write_bytes(orjson.dumps(mine))
    assert "mine:" in run("-m", str(path), "-c", "1", "-k", "3")
    mine["points"] = mine["points"][:2]
    path.write_bytes(orjson.dumps(mine))
    with pytest.raises(UserError, match=r"under four with k 0"):
        load_calibration(str(path))
    mine["extra"] = 1
    path.write_bytes(orjson.dumps(mine))
    with pytest.raises(UserError, match=r"extra"):
        load_calibration(str(path))
    with pytest.raises(UserError, match="--calibration nowhere: none of rtx6kpro-k26-v3"):
        load_calibration("nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points.0.tok_s": float("nan")}, "'.nan' is no finite number"),
        ({"points.0.tok_s": float("inf")}, "'.inf' is no finite number"),
        ({"points.0.tok_s": -1}, r"points\.0\.tok_s = -1"),
        ({"points.0.tok_s": "fast"}, r"points\.0\.tok_s = 'fast'"),
        ({"points.0.concurrency": 10**9}, r"points\.0\.concurrency = 1000000000"),
        ({"points.0.concurrency": 10**30}, "too large a number"),
        ({"points.0.concurrency": 2}, r"concurrency 2, context 0, k 0 is there twice"),
        ({"points.1": None}, r"points\.1"),
        ({"points": []}, r"points: needs at least one"),
        ({"all_reduce.alpha_us": float("nan")}, "'.nan' is no finite number"),
        ({"all_reduce.alfa_us": 1.0}, r"unknown key 'all_reduce\.alfa_us' \(did you mean 'alpha_us'\?\)"),
        ({"ranks": 0}, r"ranks = 0"),
        ({"model": "gpt"}, r"model gpt: none of kimi-k2\.5"),
        ({"reference": "nowhere"}, r"reference nowhere: none of"),
        ({"reference": "user-vllm-0.16"}, r"reference = 'user-vllm-0.16': leans on a reference itself"),
        ({"ngram": {"k": 5, "slower_least": float("nan"), "slower_most": 0.5}}, "no finite number"),
        ({"ngram": {"k": 5, "slower_least": 0.5, "slower_most": 0.1}}, "swap them"),
        ({"ngram": {"k": 10**9, "slower_least": 0.1, "slower_most": 0.5}}, r"ngram\.k"),
        ({"profile.step_ms": 0}, r"profile"),
    ],
    ids=str,
)
def test_a_fault_in_a_calibration_names_file_key_and_value(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    content = load_calibration("rtx6kpro-k26-v4").model_dump(mode="json")
    for key, value in change.items():
        *parents, leaf = [int(part) if part.isdigit() else part for part in key.split(".")]
        where: Any = content
        for parent in parents:
            where[parent] = where[parent] or {}
            where = where[parent]
        where[leaf] = value
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match=message) as caught:
        load_calibration(str(path))
    assert str(caught.value).startswith(f"--calibration {path}: ")
    assert "\n" not in str(caught.value)


def test_a_calibration_that_leans_on_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    content = load_calibration("rtx6kpro-k26-v4").model_dump(mode="json") | {"reference": str(path)}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match="leans on a reference itself"):
        load_calibration(str(path))


def test_an_ngram_result_that_no_drafts_explain_is_refused(tmp_path: Path) -> None:
    ngram = {"k": 1, "slower_least": 0.9, "slower_most": 0.95}
    content = load_calibration("user-vllm-0.16").model_dump(mode="json") | {"ngram": ngram}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    ran = CliRunner().invoke(app, ["plan", "ngram", "-m", str(path)])
    assert isinstance(ran.exception, UserError)
    assert "ngram: slower by 0.9 to 0.95 means" in str(ran.exception)


def comm_result(folder: Path, *, passed: bool = True, beta: float = 0.05) -> Path:
    fit = {
        "operation": "all_reduce",
        "alpha_us": 5.0,
        "beta_us_per_kib": beta,
        "bandwidth_gb_s": 20.5,
        "residual_rms": 0.01,
        "residual_worst": 0.02,
        "points": 5,
        "smallest": 14336,
        "largest": 1 << 20,
    }
    run = {
        "variant": "default",
        "environment": {},
        "plan": {"backend": "nccl", "sizes": [14336]},
        "ranks": 8,
        "passed": passed,
        "seconds": 1.0,
        "limit_s": 60.0,
        "ends": [],
        "fits": [{**fit, "graph": False}, {**fit, "graph": True, "alpha_us": 4.0}],
    }
    host = {
        "kernel_command_line": "",
        "iommu_groups": 0,
        "iommu_type": "",
        "topology": "",
        "nccl_environment": {},
        "findings": [],
    }
    report = CommReport.model_validate({"host": host, "runs": [run]})
    return provenance.write(provenance.Recorder("comm").finish(report.model_dump(mode="json")), folder)


def test_links_come_from_their_measurement(tmp_path: Path) -> None:
    path = comm_result(tmp_path)
    link = load_link(str(path))
    assert (link.alpha_us, link.beta_us_per_kib, link.source) == (4.0, 0.05, str(path))
    assert "tok/s" in run("-c", "1", "-k", "3", "--all-reduce", str(path))
    assert load_link("18.8,0.08").alpha_us == 18.8


def test_links_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no all-reduce fit"):
        load_link(str(comm_result(tmp_path, passed=False)))
    with pytest.raises(UserError, match=r"beta_us_per_kib = 1e\+20"):
        load_link(str(comm_result(tmp_path, beta=1e20)))
    other = provenance.write(provenance.Recorder("trace").finish({"x": 1}), tmp_path)
    with pytest.raises(UserError, match="not a result file of `bench comm`"):
        load_link(str(other))
    for name in ("fast", "1,2,3", "1,x", "5"):
        with pytest.raises(UserError, match="neither ALPHA,BETA"):
            load_link(name)
    for name in ("nan,1", "1e400,1", "-1,1", "1e12,1"):
        with pytest.raises(UserError, match=rf"--half-all-reduce {name}: alpha_us = "):
            load_link(name, "--half-all-reduce")


def test_layout_takes_half_the_ranks_links() -> None:
    assert run("layout", "-c", "1", "--half-all-reduce", "1,0.01") != run("layout", "-c", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "--method", "magic"], "--method magic: eagle3 or ngram"),
        (["--verify-rows", "none"], "--verify-rows none: tokens or requests"),
        (["roofline", "--hardware", "abacus"], "--hardware abacus: none of"),
        (["--ngram-accept", "9@3"], "--ngram-accept 9@3: accept length 9.0"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(app, ["plan", *arguments])
    assert isinstance(ran.exception, UserError)
    assert message in str(ran.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "99999999999999999999"],
        ["-k", "65"],
        ["--ngram-k", "65"],
        ["--context", "99999999999999999999"],
        ["explain", "-c", "99999999999999999999"],
        ["explain", "-k", "65"],
        ["roofline", "--ranks", "99999999"],
        ["validate", "--bar", "nan"],
        ["validate", "--bar", "inf"],
    ],
    ids=" ".join,
)
def test_numbers_out_of_range_are_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["plan", *arguments]).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "--results", "/dev/null"],
        ["validate", "--results", "/dev/null/deeper"],
        ["adaptive", "/dev/null/x.json"],
        ["adaptive", "/"],
    ],
    ids=" ".join,
)
def test_an_output_that_cannot_be_written_ends_it_before_the_work(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_planner", lambda *_: pytest.fail("the work began"))
    ran = CliRunner().invoke(app, ["plan", *arguments])
    assert isinstance(ran.exception, UserError), ran.exception
    assert "cannot be written" in str(ran.exception)


def test_nothing_heavy_is_imported_for_help() -> None:
    import subprocess
    import sys

    code = "import sys; import k25serve.bench.cli; print([m for m in ('torch', 'numpy', 'sglang') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
    assert commands.DEFAULT_MACHINE == "rtx6kpro-k26-v4"
