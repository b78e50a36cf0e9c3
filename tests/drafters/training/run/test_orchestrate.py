"""The run as a whole: once through, stopped anywhere, changed, cut into parts."""

import json
from pathlib import Path

import pytest
from drafter_files.runs import Runs
from drafter_files.state_engine import StateEngines

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.check import Verdict, check_drafter
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny import TARGET

STEPS = ("data", "vocab", "capture", "fit", "export")


def model(out: Path) -> str:
    return sha256(out / "drafter" / "model.safetensors")


def test_every_step_once_then_nothing(runs: Runs) -> None:
    first = runs()
    assert first.done == STEPS
    assert runs.boots == 1
    assert any(line.startswith("[3/5] capture: about") and "left in all" in line for line in runs.said)
    assert check_drafter(runs.out / "drafter", TARGET).verdict is not Verdict.REFUSE
    made = {path: path.stat().st_mtime_ns for path in runs.out.rglob("*") if path.is_file() and "hs_" in path.name}
    again = runs()
    assert (again.done, runs.boots) == ((), 0)
    assert again.facts == first.facts
    assert made == {path: path.stat().st_mtime_ns for path in made}


def test_goes_on_after_a_failure_in_each_step(runs: Runs, tmp_path: Path) -> None:
    """The engine dies at its fifth prompt; then fit is given a vocabulary that is damaged; both are mended."""

    def dies(answered: int) -> None:
        if answered == 4:
            raise ConnectionError("the engine is gone")

    runs.before = dies
    with pytest.raises(TrainingError, match="engine runs, then start again"):
        runs()
    runs.before = lambda answered: None
    kept = {path: path.stat().st_mtime_ns for path in (runs.out / "hidden").rglob("hs_*")}
    assert len(kept) == 4
    assert runs(until="capture").done == ("capture",)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    (runs.out / "vocab" / "vocab.safetensors").unlink()
    resumed = runs()
    assert any("vocab: finished, but what it made is not there" in line for line in runs.said)
    assert set(resumed.done) == {"vocab", "fit", "export"}
    whole = Runs(tmp_path / "whole", runs.sets)
    whole()
    assert model(whole.out) == model(runs.out)


def test_captured_states_need_no_engine(runs: Runs) -> None:
    runs(until="capture")
    state = json.loads((runs.out / "state.json").read_text())
    del state["steps"]["capture"]
    (runs.out / "state.json").write_text(json.dumps(state))
    assert runs().done == ("capture", "fit", "export")
    assert runs.boots == 0


@pytest.mark.full
def test_states_may_go_once_the_fit_is_done(runs: Runs) -> None:
    runs()
    for path in (runs.out / "hidden").rglob("*.safetensors"):
        path.unlink()
    assert runs().done == ()


def test_a_changed_config_is_told_and_redone_from_there(runs: Runs) -> None:
    runs()
    before = model(runs.out)
    with pytest.raises(TrainingError, match=r"fit.max_steps: 4 -> 6.*fit, export would be done again.*--redo"):
        runs("fit.max_steps=6")
    assert model(runs.out) == before
    assert "max_steps: 4" in (runs.out / "run.yaml").read_text()
    assert runs("fit.max_steps=6", redo=True).done == ("fit", "export")
    assert model(runs.out) != before
    assert runs("fit.max_steps=6", "fit.loader_workers=1").done == ()
    assert "nothing that is finished depends on it" in runs.said[0]
    assert "loader_workers: 0 -> 1" in runs.said[0]


def test_a_changed_input_file_is_noticed(runs: Runs, samples: Path) -> None:
    runs(until="vocab")
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:12]))
    with pytest.raises(TrainingError, match="data: its inputs have changed, so data, vocab would be done again"):
        runs()
    assert runs(redo=True).done == STEPS
    assert json.loads((runs.out / "state.json").read_text())["steps"]["data"]["facts"]["train"]["rows"] < 12


def test_a_small_disk_means_parts(runs: Runs) -> None:
    """Room for about half of the training states: two parts or more, each with every n-th sample, then dropped."""
    runs(until="vocab")
    facts = json.loads((runs.out / "state.json").read_text())["steps"]["data"]["facts"]
    room = (facts["held_out"]["tokens"] + facts["train"]["tokens"] // 2 + 1) * 2048
    names = ("part 1 of 2", "part 2 of 2", "fit", "export")
    done = runs(f"hidden_bytes={room}", until="part 1 of 2")
    assert done.done == names[:1]
    assert not (runs.out / "parts" / "0" / "hidden" / "train").exists()
    assert runs(f"hidden_bytes={room}").done == names[1:]
    assert runs.boots == 1
    rows = [json.loads((runs.out / "parts" / str(part) / "fit" / "settings.json").read_text()) for part in (0, 1)]
    assert [row["options"]["init"]["kind"] for row in rows] == ["scratch", "warm"]
    assert check_drafter(runs.out / "drafter", TARGET).verdict is not Verdict.REFUSE
    assert runs(f"hidden_bytes={room}").done == ()
    with pytest.raises(TrainingError, match="part 1 of 2, part 2 of 2, fit, export would be done again"):
        runs()
    assert runs(redo=True).done == ("capture", "fit", "export")
    assert not (runs.out / "parts").exists()


@pytest.mark.full
def test_engine_stays_up_only_where_asked(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    from k25serve.drafters.training.run import fit_step

    stopped: list[bool] = []
    original = fit_step.fit_all

    def watched(work, folder, options):  # type: ignore[no-untyped-def]
        facts = original(work, folder, options)
        assert isinstance(work.engines, StateEngines)
        stopped.append(work.capturing is None)
        return facts

    monkeypatch.setattr(fit_step, "fit_all", watched)
    runs()
    assert stopped == [True]
    runs("keep_engine=true", "capture.rows_per_shard=4", redo=True)
    assert stopped == [True, False]


def test_inputs_may_go_once_the_data_is_made(runs: Runs, samples: Path) -> None:
    runs(until="vocab")
    samples.unlink()
    assert runs(until="vocab").done == ()
    (runs.out / "data" / "report.json").unlink()
    with pytest.raises(TrainingError, match="no such file"):
        runs()


def test_own_words_in_run_yaml_stay(runs: Runs) -> None:
    runs(until="data")
    path = runs.out / "run.yaml"
    path.write_text("# mine\n" + path.read_text())
    runs(until="data")
    assert path.read_text().startswith("# mine\n")


def test_no_held_out_sample_is_told(runs: Runs) -> None:
    with pytest.raises(TrainingError, match=r"none of 14 samples was drawn for held_out; raise data.held_out"):
        runs("data.held_out=0.0001")


@pytest.mark.full
def test_two_processes_fit(runs: Runs) -> None:
    assert runs("processes=2").done == STEPS
    assert json.loads((runs.out / "fit" / "result.json").read_text())["processes"] == 2
    with pytest.raises(TrainingError, match=r"fit: .*begun with other options|processes: 2 -> 1"):
        runs("processes=1")
