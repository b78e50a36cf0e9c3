"""The check, where the small decoder stands for a plain forward too: it passes what is right and names what is not."""

import json
from pathlib import Path

import pytest
import torch
from captured import data, played
from captured.engine import PlayedEngine

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.capture import check as checking
from k25serve.drafters.training.capture.check import CheckReport, check, spread
from k25serve.drafters.training.capture.compare import match_layers
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.reference import Reference, why_not
from k25serve.drafters.training.capture.run import capture
from k25serve.drafters.training.progress import Silent

OPTIONS = CaptureOptions(timeout_s=20)


@pytest.fixture(autouse=True)
def _small_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "Reference", lambda target: played.Decoder())


def checked(engine: PlayedEngine, run_data: Path, tmp_path: Path, samples: int = 5) -> CheckReport:
    capture(OPTIONS, run_data, tmp_path / "hidden", engine.url, TARGET, None, Silent())
    return check(OPTIONS, run_data, tmp_path / "hidden", engine.url, TARGET, samples)


def test_what_is_right_passes(engine: PlayedEngine, run_data: Path, tmp_path: Path) -> None:
    report = checked(engine, run_data, tmp_path)
    assert report.faults == []
    assert (report.samples, report.not_here) == (5, None)
    assert [match.layer for match in report.layers] == [1, 2, 3, 4]
    for match in report.layers:
        assert match.nearest == match.layer
        assert match.relative_error < 0.004
        assert match.cosine > 0.9999
    assert report.head.agreement > 0.95
    assert report.head.difference < 0.05
    assert report.head.tokens == report.tokens - report.samples


@pytest.mark.parametrize("shift", [1, -1])
def test_layers_that_are_off_by_one_are_named(engine: PlayedEngine, run_data: Path, tmp_path: Path, shift: int) -> None:
    engine.model.shift = shift
    faults = checked(engine, run_data, tmp_path).faults
    assert len(faults) == 3, "the last state is right"
    for fault, layer in zip(faults, (1, 2, 3), strict=True):
        assert fault.startswith(
            f"what was captured as layer {layer} is what leaves layer {layer + shift} (relative err"
        )


def states(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A sample's captured states [n, 2, H] of layers 0 and 2, and the reference of three layers [3, n, H]."""
    reference = torch.randn(3, tokens, 32, generator=torch.Generator().manual_seed(0))
    return reference[[0, 2]].transpose(0, 1).clone(), reference


def test_a_few_tokens_at_another_expert_are_no_fault() -> None:
    """Where two experts are nearly alike, bf16 may choose the other one: the token's state is off by half."""
    captured, reference = states(100)
    captured[:8] *= 1.5
    assert [match.fault for match in match_layers((0, 2), [captured], [reference])] == [None, None]


def test_many_tokens_that_are_off_are_a_fault() -> None:
    captured, reference = states(100)
    captured[:15, 1] *= 1.5
    right, wrong = match_layers((0, 2), [captured], [reference])
    assert right.fault is None
    assert wrong.fault is not None
    assert wrong.fault.startswith(
        "layer 2 differs from a plain forward by 0.5000 of a state's length or more at one in"
    )


def test_states_that_are_no_number_are_a_fault() -> None:
    captured, reference = states(10)
    captured[:, 0] = float("nan")
    broken, _ = match_layers((0, 2), [captured], [reference])
    assert broken.fault is not None


def test_all_tokens_off_a_little_are_a_fault() -> None:
    captured, reference = states(10)
    captured[:, 0] *= 1.06
    slightly, _ = match_layers((0, 2), [captured], [reference])
    assert slightly.fault is not None
    assert "by 0.0600 of a state's length or more at half of the tokens" in slightly.fault


def test_a_wrong_last_state_is_found_by_the_head_alone(
    engine: PlayedEngine, run_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a target that is too large for a plain forward here."""
    monkeypatch.setattr(checking, "why_not", lambda target: "its weights are 595 GB")
    engine.model.norm.register_forward_hook(lambda norm, given, result: setattr(engine.row, "_last", given[1]))
    report = checked(engine, run_data, tmp_path)
    (fault,) = report.faults
    assert fault.startswith("the last state through norm and head differs from the engine by ")
    assert (report.layers, report.not_here) == ((), "its weights are 595 GB")


def test_a_damaged_file_is_told(engine: PlayedEngine, run_data: Path, tmp_path: Path) -> None:
    checked(engine, run_data, tmp_path)
    path = tmp_path / "hidden" / "train" / "hs_6.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(TrainingError, match=r"hs_6\.safetensors: it cannot be read .*; capture it again"):
        check(OPTIONS, run_data, tmp_path / "hidden", engine.url, TARGET, 5)


def test_nothing_captured_yet(engine: PlayedEngine, run_data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no captured sample of two tokens or more; capture first"):
        check(OPTIONS, run_data, tmp_path / "hidden", engine.url, TARGET, 5)


def test_samples_are_spread_over_the_lengths() -> None:
    lengths = [9, 1, 5, 100, 30, 2]
    assert spread(lengths, 3) == [5, 0, 3]
    assert spread(lengths, 1) == [5]
    assert spread(lengths, 99) == [5, 2, 0, 4, 3]
    assert spread([1, 1], 4) == []


def test_targets_without_a_plain_forward_here(tmp_path: Path) -> None:
    config = json.loads((TARGET / "config.json").read_text())
    assert why_not(TARGET) is None
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert why_not(tmp_path) == "it has no single model.safetensors"
    (tmp_path / "model.safetensors").symlink_to(TARGET / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "x"}}))
    assert why_not(tmp_path) == "its weights are quantized"
    config["text_config"]["model_type"] = "llama"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert why_not(tmp_path) == "its text model is llama, not DeepSeek-V3"
    with (tmp_path / "large").open("wb") as file:
        file.truncate(5 << 30)
    (tmp_path / "large").rename(tmp_path / "model.safetensors")
    assert why_not(tmp_path) == "its weights are 5 GB"


def test_the_plain_forward_stops_before_the_final_norm() -> None:
    """Through transformers' own norm and head, its last state gives transformers' own logits."""
    reference, (prompt,) = Reference(TARGET), data.prompts((6,))
    ids = torch.tensor(prompt)
    states, model = reference.states(ids), reference._model
    assert states.shape == (5, 6, 256)
    with torch.no_grad():
        logits = model(ids[None]).logits[0]
        torch.testing.assert_close(model.lm_head(model.model.norm(states[-1])), logits)
