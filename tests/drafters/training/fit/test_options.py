"""Settings: packaged ones hold, mistakes are told with their key."""

from pathlib import Path

import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit.config_file import config_names, load_options
from k25serve.drafters.training.fit.optimizer import rate_factor
from k25serve.drafters.training.fit.options import Optimizer


def test_packaged_configs_are_whole() -> None:
    assert config_names() == ["k25", "tiny"]
    k25 = load_options("k25").draft_layer
    # AQ-MedAI/Kimi-K25-eagle3 config.json
    assert (k25.intermediate_size, k25.num_attention_heads, k25.num_key_value_heads, k25.head_dim) == (
        18432,
        64,
        64,
        128,
    )
    assert (k25.rope_theta, k25.max_position_embeddings) == (1e6, 262144)
    assert load_options("tiny").train_head


def test_keys_are_set_on_top() -> None:
    options = load_options("tiny", ["optimizer.learning_rate=0.5", "max_minutes=3", "loss={ce: 0.1, tv: 0.9}"])
    assert options.optimizer.learning_rate == 0.5
    assert options.max_minutes == 3
    assert options.loss == {"ce": 0.1, "tv": 0.9}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("optimizer.learning_rat=1", r"unknown key optimizer\.learning_rat \(did you mean 'learning_rate'\?\)"),
        ("loss=mse", "loss"),
        ("seed", r"--set seed: write it as key=value"),
        ("max_minutes.x=1", r"max_minutes is a single value"),
        ("init.kind=warm", r"init\.drafter names the folder of kind warm"),
        ("draft_layer.num_key_value_heads=3", "no multiple"),
        ("seed=[", "not YAML"),
    ],
)
def test_mistakes_name_the_key(change: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        load_options("tiny", [change])


def test_a_file_and_what_is_none(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"--config nothing: no such file; give one of k25, tiny, or a file"):
        load_options("nothing")
    (tmp_path / "own.yaml").write_text("- 1\n")
    with pytest.raises(TrainingError, match="must be a mapping"):
        load_options(str(tmp_path / "own.yaml"))
    packaged = Path(load_options.__code__.co_filename).with_name("configs") / "tiny.yaml"
    values = packaged.read_text()
    (tmp_path / "own.yaml").write_text(values)
    assert load_options(str(tmp_path / "own.yaml")) == load_options("tiny")


def test_training_without_an_end(tmp_path: Path) -> None:
    changes = [f"{key}=null" for key in ("max_steps", "epochs", "max_minutes")]
    with pytest.raises(TrainingError, match="training would not end; give one"):
        load_options("tiny", changes)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_rate_rises_and_falls(schedule: str) -> None:
    options = Optimizer.model_validate({"learning_rate": 1, "schedule": schedule, "warmup": 0.1, "floor": 0.2})
    shares = [rate_factor(options, share) for share in (0.0, 0.05, 0.1, 0.55, 1.0)]
    assert shares == pytest.approx([0.01, 0.5, 1.0, 0.6, 0.2])
