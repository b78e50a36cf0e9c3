"""The gate itself, for SM120: this is where a tile that no longer fits fails `make test`."""

import json

import pytest

from k25serve.patches.compile import __main__, gate
from k25serve.patches.compile.assembly import Resources
from k25serve.patches.compile.baseline import Baseline
from k25serve.patches.compile.gate import Report, judge, run
from k25serve.patches.compile.report import as_json
from k25serve.patches.compile.sglang_kernels import installed_folder, load
from k25serve.patches.compile.stub import launches_compile_for, triton_version
from k25serve.patches.compile.upstream import upstream
from k25serve.patches.compile.variants import Compiled
from k25serve.patches.kernels.mla_verify import tiles

LIMIT = tiles.SHARED_LIMIT["sm_120"]


@pytest.fixture(scope="module")
def report() -> Report:
    """Of our own kernels: those that a change here can spoil."""
    return run("sm_120", Baseline.read())


def passes(report: Report) -> None:
    assert [(row.name, row.problems) for row in report.rows if row.problems] == []
    assert report.passed
    assert report.seconds < 180


def test_passes_in_time(report: Report) -> None:
    passes(report)


def test_default_tiles_fit_without_a_spill(report: Report) -> None:
    defaults = {row.name: row.resources for row in report.rows if row.default}
    assert set(defaults) == {
        *(f"{kind} {rows} rows" for kind in ("bf16", "fp8") for rows in tiles.ROWS),
        *(f"merge {splits} x {columns}" for _, (splits, columns) in tiles.MERGE_SHAPES),
    }
    for found in defaults.values():
        assert found.shared <= LIMIT
        assert found.registers <= 255
        assert (found.spill_stores, found.spill_loads) == (0, 0)


def test_a_bf16_tile_is_double_buffered(report: Report) -> None:
    for row in report.rows:
        if row.name.startswith("bf16"):
            assert row.resources.copies > 0
            assert row.resources.ahead > 0, row.name
            assert row.resources.products > 0


def test_alternates_are_compared_with_a_record(report: Report) -> None:
    others = [row for row in report.rows if not row.default]
    assert others
    assert all(row.known for row in others)
    names = {row.name for row in others}
    assert {f"{kind} 32 rows {text}" for kind, texts in tiles.ALTERNATES.items() for text in texts} <= names
    assert {"fp8_dot 16 rows", "fp8_dot 32 rows"} <= names


def test_a_kernel_of_sglang_is_compared_with_its_record() -> None:
    with launches_compile_for("sm_120") as collector:
        first = next(upstream(load(installed_folder(), "0.5.23", (12, 0)), collector))
    row = judge(first, "sm_120", LIMIT, Baseline.read().of(triton_version(), "sm_120"))
    assert row.name == "sglang 0.5.23 decode bf16 fwd_grouped_kernel_stage1"
    assert (row.known, row.default, row.problems) == (True, False, ())


@pytest.mark.full
def test_every_kernel_of_sglang_is_compared_with_its_record() -> None:
    """They change with SGLang and Triton, which the locks pin."""
    report = run("sm_120", Baseline.read(), load(installed_folder(), "0.5.23", (12, 0)))
    passes(report)
    assert all(row.known for row in report.rows if not row.default)
    names = {row.name for row in report.rows}
    for kernel in (
        "decode bf16 fwd_grouped_kernel_stage1",
        "extend verify bf16 fwd_kernel",
        "extend prefill fp8 fwd_kernel",
    ):
        assert f"sglang 0.5.23 {kernel}" in names
    assert "sglang 0.5.23 verify_mla fp8 verify_mla_prefix_stage1" in names


def test_json_holds_every_row(report: Report) -> None:
    written = json.loads(as_json(report))
    assert written["passed"] is True
    assert (written["arch"], written["limit"]) == ("sm_120", LIMIT)
    assert [row["name"] for row in written["rows"]] == [row.name for row in report.rows]
    assert written["rows"][0]["resources"]["shared"] == report.rows[0].resources.shared


GOOD = Resources("k", 4, 4, 90_000, 250, 0, 0, 72, 36, 4)


def judged(monkeypatch: pytest.MonkeyPatch, found: dict[str, int], *, default: bool, before: Resources | None = None):
    resources = Resources(**{**GOOD.__dict__, **found})
    monkeypatch.setattr(gate, "resources_of", lambda kernel, arch: resources)
    known = {} if before is None else {"variant": before}
    return judge(Compiled("variant", None, default, ("products", "copies")), "sm_120", LIMIT, known).problems


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"shared": 101_377}, "101,377 bytes of shared memory, 101,376 at most"),
        ({"spill_stores": 4}, "spills 4 bytes out, 0 back"),
        ({"spill_loads": 8}, "spills 0 bytes out, 8 back"),
        ({"products": 0}, "no tensor-core product"),
        ({"copies": 0}, "not double-buffered: 0 asynchronous copies"),
        ({"ahead": 0}, "0 groups in flight"),
    ],
)
def test_a_default_tile_fails_for(monkeypatch: pytest.MonkeyPatch, found: dict[str, int], problem: str) -> None:
    assert judged(monkeypatch, {}, default=True) == ()
    (text,) = judged(monkeypatch, found, default=True)
    assert problem in text


def test_an_alternate_may_spill_as_much_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Resources(**{**GOOD.__dict__, "spill_stores": 40, "spill_loads": 36})
    assert judged(monkeypatch, {"spill_stores": 40, "spill_loads": 36}, default=False, before=recorded) == ()
    assert judged(monkeypatch, {"spill_stores": 40}, default=False) == ()
    problems = judged(monkeypatch, {"spill_stores": 44, "shared": 90_001}, default=False, before=recorded)
    assert problems == (
        "shared memory grew from 90,000 to 90,001 bytes since the baseline",
        "spill stores grew from 40 to 44 bytes since the baseline",
    )


def test_what_stops_fitting_fails_even_unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = judged(monkeypatch, {"shared": 106_496}, default=False)
    assert "101,376 at most" in text
    never_fitted = Resources(**{**GOOD.__dict__, "shared": 106_496})
    assert judged(monkeypatch, {"shared": 106_496}, default=False, before=never_fitted) == ()


@pytest.mark.parametrize(("problems", "status"), [((), 0), (("spills",), 1)])
def test_command_line(monkeypatch, tmp_path, capsys, problems: tuple[str, ...], status: int) -> None:
    row = gate.Row("bf16 32 rows", True, False, GOOD, problems)
    monkeypatch.setattr(__main__, "run", lambda *_: Report("sm_120", "3.8.0", LIMIT, 1.5, (row,)))
    file = tmp_path / "report.json"
    assert __main__.main(["--arch", "sm_120", "--ours-only", "--json", str(file)]) == status
    assert json.loads(file.read_text())["passed"] is (status == 0)
    shown = capsys.readouterr().out
    assert "bf16 32 rows" in shown
    assert ("pass" if status == 0 else "FAIL") in shown


def test_recording_keeps_what_other_versions_have(tmp_path) -> None:
    file = tmp_path / "baseline.json"
    baseline = Baseline()
    baseline.record("3.6.0", "sm_120", {"a": GOOD})
    baseline.record("3.8.0", "sm_120", {"b": GOOD})
    baseline.write(file)
    read = Baseline.read(file)
    assert read.of("3.6.0", "sm_120") == {"a": GOOD}
    assert read.of("3.8.0", "sm_120") == {"b": GOOD}
    assert read.of("3.8.0", "sm_90") == {}


def test_where_it_cannot_write_is_found_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(__main__, "run", lambda *_: pytest.fail("it compiles for minutes"))
    path = tmp_path / "no" / "report.json"
    with pytest.raises(SystemExit) as ended:
        __main__.main(["--arch", "sm_120", "--ours-only", "--json", str(path)])
    assert ended.value.code == 2
    assert f"error: --json {path}: cannot be written (No such file or directory)" in capsys.readouterr().err
