"""What follows from what: disk, shards, money, room, words."""

import json
import shutil
from pathlib import Path

import pytest

from k25serve.drafters.checkpoint.errors import CheckpointError, TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.estimate import EstimateOptions, estimate
from k25serve.drafters.training.estimate.machine import load_machine, machine_names
from k25serve.drafters.training.estimate.options import PACKAGED_TARGET
from k25serve.drafters.training.estimate.recommend import elsewhere, recommend
from k25serve.drafters.training.estimate.target_facts import read_target


def test_small_disk_means_turns() -> None:
    whole, cut = (estimate(EstimateOptions(epochs=2, disk_tb=disk)) for disk in (None, 4.0))
    assert (whole.shards, cut.shards) == (1, 4)
    assert cut.hours.loads == pytest.approx(4 * whole.hours.loads)
    assert (cut.hours.capture, cut.hours.fit) == (whole.hours.capture, whole.hours.fit)
    assert "take turns over 4 parts" in recommend(cut)


def test_engine_starts_once_where_both_fit() -> None:
    found = estimate(EstimateOptions(machine="h200-x8", disk_tb=4.0))
    assert found.room.beside
    assert found.hours.loads == pytest.approx(found.target.weight_bytes / 2e9 / 3600)
    assert "side by side" in recommend(estimate(EstimateOptions(machine="h200-x8")))


def test_price() -> None:
    found = estimate(EstimateOptions(price_per_gpu_hour=3.5))
    assert found.cost == pytest.approx(3.5 * 8 * found.hours.total)
    assert estimate(EstimateOptions()).cost is None


def test_long_answers_leave_room_for_fewer_requests() -> None:
    short, long = (estimate(EstimateOptions(generated_tokens=n)) for n in (1200, 12_000))
    assert long.room.requests < short.room.requests <= 128
    assert long.rates.decode < short.rates.decode
    assert long.room.kv + long.room.weights + long.room.runtime <= long.machine.memory_gb


def test_weeks_here_means_renting() -> None:
    found = estimate(EstimateOptions(samples=600_000))
    best = min(elsewhere(found), key=lambda other: other.gpu_hours)
    assert recommend(found).startswith(f"{found.hours.total / 24:.1f} days of this machine")
    assert f"rent a machine with NVLink ({best.machine}" in recommend(found)
    assert best.hours < found.hours.total


def test_fewer_hours_than_needed() -> None:
    enough = estimate(EstimateOptions(machine="b300-x8"))
    found = estimate(EstimateOptions(machine="b300-x8", hours=enough.hours.total / 2))
    assert "at most 50000 samples" in recommend(found)
    assert "Run it here" in recommend(enough)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    small = tmp_path / "small.yaml"
    text = Path(load_machine.__code__.co_filename).with_name("machines").joinpath("h200-x8.yaml").read_text()
    small.write_text(text.replace("memory_gb: 141", "memory_gb: 48"))
    assert "do not fit small" in recommend(estimate(EstimateOptions(machine=str(small))))


def test_tiny_target_by_its_files() -> None:
    target = read_target(TARGET)
    assert target.weight_bytes == sum(file.stat().st_size for file in TARGET.glob("*.safetensors"))
    assert target.hidden_bytes_per_token == 4 * 256 * 2
    assert target.kv_bytes_per_token == 5 * (512 + 64) * 2


def test_parameters_are_those_of_the_files(tmp_path: Path) -> None:
    """Computed from config.json alone, within the norms and the vision tower of what the files hold."""
    shutil.copy(TARGET / "config.json", tmp_path)
    assert read_target(tmp_path).parameters == pytest.approx(read_target(TARGET).weight_bytes / 2, rel=0.05)


def test_grouped_attention_and_dense(tmp_path: Path) -> None:
    """Llama-3.1-8B's sizes: 8.03e9 parameters, 128 KiB of KV cache a token."""
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128_256, "intermediate_size": 14_336}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    (tmp_path / "config.json").write_text(json.dumps(sizes | heads))
    target = read_target(tmp_path)
    assert target.parameters == pytest.approx(8.03e9, rel=0.001)
    assert target.kv_bytes_per_token == 131_072
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    with pytest.raises(CheckpointError, match="num_attention_heads is null"):
        read_target(tmp_path)


@pytest.mark.parametrize("name", machine_names())
def test_packaged_machines_are_whole(name: str) -> None:
    found = estimate(EstimateOptions(machine=name))
    assert found.hours.total > 0
    for rate in (found.machine.prefill, found.machine.decode, found.machine.fit):
        assert rate.source
        assert (rate.kind == "measured") == (rate.tokens_per_s is not None)


def test_wrong_machine_files(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="did you mean h200-x8"):
        load_machine("h200x8")
    broken = tmp_path / "broken.yaml"
    for text, told in (("[1", "not a YAML file"), ("- 1", "mapping of keys"), ("gpus: 0\nmemory: 3", "is missing")):
        broken.write_text(text)
        with pytest.raises(TrainingError, match=told):
            load_machine(str(broken))
    whole = load_machine("h200-x8").model_dump(mode="json", exclude_none=True)
    broken.write_text(json.dumps(whole | {"memory_gbs": 3}))
    with pytest.raises(TrainingError, match=r"unknown key .*memory_gbs.*did you mean 'memory_gb'"):
        load_machine(str(broken))


def test_packaged_target_is_kimi() -> None:
    assert read_target(PACKAGED_TARGET).name == "kimi-k2.5"
