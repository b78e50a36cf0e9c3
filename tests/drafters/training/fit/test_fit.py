"""The whole step on the toy target: killed anywhere it ends with the same weights; what is wrong is told."""

import json
from pathlib import Path

import pytest
import torch
from drafter_files.fit_settings import toy_options
from drafter_files.stopper import Killed, Stopper
from safetensors.torch import load_file, save_file
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit.run import Fitted, fit
from k25serve.drafters.training.progress import Silent


def weights(fitted: Fitted) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = load_file(fitted.final / "model.safetensors")
    return tensors


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_killed_and_resumed_is_bit_equal(run: Path, target: Path, optimizer: str) -> None:
    options = toy_options(optimizer={"learning_rate": 0.01, "name": optimizer}, final="best", max_steps=None, epochs=4)
    whole = fit(options, run, target, run / "whole", Silent())
    for step in (1, 5, 8, 3):
        with pytest.raises(Killed):
            fit(options, run, target, run / "fit", Stopper(step))
    resumed = fit(options, run, target, run / "fit", Silent())
    assert resumed.steps == whole.steps > 12
    assert [line["held_out"] for line in resumed.curves] == [line["held_out"] for line in whole.curves]
    expected, found = weights(whole), weights(resumed)
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    kept = {name: sorted((run / name / "checkpoints").iterdir()) for name in ("fit", "whole")}
    assert [len(paths) for paths in kept.values()] == [2, 2]
    found, expected = (torch.load(paths[-1], weights_only=True)["drafter"] for paths in kept.values())
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())  # fp32: final is rounded


def test_it_learns_and_writes_what_speculators_reads(run: Path, target: Path) -> None:
    done = fit(toy_options(max_steps=80, evaluate_every=40), run, target, run / "fit", Silent())
    lines = [json.loads(line) for line in (run / "fit" / "curves.jsonl").read_text().splitlines()]
    assert lines == done.curves
    assert [line["step"] for line in lines] == [40, 80]
    assert lines[1]["train_loss"] < 0.7 * lines[0]["train_loss"]
    assert len(lines[0]["held_out"]["loss"]) == len(lines[0]["held_out"]["accuracy"]) == 3
    assert sum(lines[0]["held_out"]["histogram"]) > 0
    config = Eagle3SpeculatorConfig.from_pretrained(str(done.final))
    assert config.eagle_aux_hidden_state_layer_ids == [2, 4, 5]
    missing, unexpected = Eagle3DraftModel(config).load_state_dict(weights(done), strict=False)
    assert unexpected == []
    assert set(missing) == {"embed_tokens.weight", "verifier_lm_head.weight", "verifier_norm.weight"}


def test_head_is_trained_or_stays_the_targets(run: Path, target: Path) -> None:
    trained = weights(fit(toy_options(), run, target, run / "a", Silent()))
    frozen = weights(fit(toy_options(train_head=False), run, target, run / "b", Silent()))
    head = load_file(target / "model.safetensors")["language_model.lm_head.weight"]
    rows = head[frozen["t2d"]]
    assert torch.equal(frozen["lm_head.weight"], rows)
    assert not torch.equal(trained["lm_head.weight"], rows)


def test_it_goes_on_with_nothing_else(run: Path, target: Path) -> None:
    fit(toy_options(max_steps=2), run, target, run / "fit", Silent())
    with pytest.raises(TrainingError, match=r"begun with other options \(max_steps\); go on with the same settings"):
        fit(toy_options(max_steps=3), run, target, run / "fit", Silent())
    (run / "vocab" / "report.json").write_text("{}")
    with pytest.raises(TrainingError, match=r"begun with other inputs \(vocab/report.json\)"):
        fit(toy_options(max_steps=2), run, target, run / "fit", Silent())


def test_a_damaged_checkpoint_falls_back_to_the_one_before(run: Path, target: Path) -> None:
    whole = fit(toy_options(), run, target, run / "whole", Silent())
    with pytest.raises(Killed):
        fit(toy_options(), run, target, run / "fit", Stopper(9))
    newest = sorted((run / "fit" / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    again = fit(toy_options(), run, target, run / "fit", Silent())
    assert all(torch.equal(weights(again)[name], tensor) for name, tensor in weights(whole).items())


def test_minutes_end_it(run: Path, target: Path) -> None:
    done = fit(toy_options(max_steps=None, max_minutes=0.01, evaluate_every=1000), run, target, run / "fit", Silent())
    assert 0.6 <= done.seconds < 30
    assert done.curves[-1]["learning_rate"] == 0


def test_a_loss_that_is_no_number_names_the_file(run: Path, target: Path) -> None:
    path = run / "hidden" / "train" / "hs_3.safetensors"
    tensors = load_file(path)
    tensors["hidden_states"].fill_(3e38)  # a number, but its sums are not
    save_file(tensors, path)
    with pytest.raises(TrainingError, match=r"no number .* at step \d+ on .*train/.*hs_3\.safetensors.*learning_rate"):
        fit(toy_options(), run, target, run / "fit", Silent())
