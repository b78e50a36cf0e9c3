"""run.yaml: packaged, own, wrong."""

from pathlib import Path

import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.run.load import config_names, differences, load_config, write_config
from k25serve.drafters.training.run.smoke import smoke


@pytest.mark.parametrize("name", config_names())
def test_packaged_ones_are_whole_and_read_back(name: str, tmp_path: Path) -> None:
    config = load_config(f"packaged:{name}")
    write_config(config, tmp_path / "run.yaml")
    assert load_config(str(tmp_path / "run.yaml")) == config


@pytest.mark.parametrize("name", config_names())
def test_smoke_is_the_same_run_made_small(name: str) -> None:
    config = load_config(f"packaged:{name}")
    small = smoke(config)
    assert small.data.max_conversations == 10
    assert (small.fit.max_steps, small.fit.epochs, small.fit.max_minutes) == (4, None, None)
    assert (small.target, small.engine, small.vocab, small.fit.init) == (
        config.target,
        config.engine,
        config.vocab,
        config.fit.init,
    )
    assert (small.gate is None) == (config.gate is None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("fit.max_step=3", "unknown key .*fit.max_step .did you mean 'max_steps'"),
        ("fit.max_steps=0", "fit.max_steps = 0: input should be greater than or equal to 1"),
        ("engine.layers=[3, 2, 1]", "three layers that ascend"),
        ("engine.layers=[1, 2]", "three layers that ascend"),
        ("data.held_out=0", "data.held_out is 0"),
        ("capture.layers=[0, 1, 2]", "capture.layers is not engine.layers"),
        ("engine=7", "engine = 7"),
        ("data.packaged.x=1", "packaged is a single value"),
        ("nonsense", "write it as key=value"),
        ("fit.max_steps=[", "not YAML"),
        ("hidden_bytes=.nan", "hidden_bytes"),
    ],
)
def test_wrong_values_are_named(change: str, told: str) -> None:
    with pytest.raises(TrainingError, match=told) as caught:
        load_config("packaged:micro", [change])
    assert len(str(caught.value).splitlines()) == 1


def test_no_such_config() -> None:
    with pytest.raises(TrainingError, match="packaged:k25, packaged:micro, packaged:tiny"):
        load_config("packaged:huge")
    with pytest.raises(TrainingError, match="no such file"):
        load_config("/nowhere.yaml")


def test_differences_name_keys() -> None:
    told = differences({"a": {"b": 1, "c": [1]}, "d": None}, {"a": {"b": 2, "c": [1]}, "d": {"e": 3}})
    assert told == ["a.b: 1 -> 2", "d: None -> None", "d.e: None -> 3"] or told == ["a.b: 1 -> 2", "d.e: None -> 3"]
