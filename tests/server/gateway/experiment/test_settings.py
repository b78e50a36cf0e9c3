import pytest

from k25serve.server import serve
from k25serve.server.config import load_profile
from k25serve.server.errors import ConfigError

GOOD = """
extends: cpu-tiny
name: mine
gateway:
  arms:
    - {name: new}
    - {name: old, url: "http://127.0.0.1:1", dialect: vllm}
    - {name: dark, url: "http://127.0.0.1:2"}
  experiment:
    name: new-vs-old
    state: {state}
    control: old
    weights: {new: 1, old: 3}
"""


def profile(tmp_path, *overrides):
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD.replace("{state}", str(tmp_path / "ab.db")))
    return load_profile(str(file), overrides, need_models=False)


def test_a_profile_has_an_experiment(tmp_path):
    made = serve.gateway_settings(profile(tmp_path)).experiment
    assert (made.control, made.treatments, made.weights) == ("old", ("new",), {"new": 1.0, "old": 3.0})
    assert made.comparison_alpha == pytest.approx(0.05 / 2)
    with_shadow = profile(tmp_path, "gateway.experiment.shadow={arm: dark, share: 0.1}").gateway.experiment
    assert with_shadow.treatments == ("new", "dark")
    assert with_shadow.comparison_alpha == pytest.approx(0.05 / 4)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("control=dark", "control is 'dark', which weights don't name"),
        ("weights={old: 1}", "one arm and there is no shadow"),
        ("weights={old: 1, new: 0}", "weights.new"),
        ("weights={old: 1, new: .inf}", "finite number"),
        ("shadow={arm: new, share: 0.1}", "'new' has a weight"),
        ("shadow={arm: dark, share: 2}", "shadow.share"),
        ("metrics=[tpot, tpot]", "name each once"),
        ("alpha=0", "alpha"),
        ("name=a b", "name"),
        ("gaurdrails={}", "guardrails"),
    ],
)
def test_a_mistake_names_the_key(tmp_path, override, told):
    with pytest.raises(ConfigError, match=told):
        profile(tmp_path, f"gateway.experiment.{override}")


def test_an_arm_that_is_not_there_is_told(tmp_path):
    made = profile(tmp_path, "gateway.experiment.weights={old: 1, gone: 1}")
    with pytest.raises(ConfigError, match="experiment names the arm 'gone'; the arms are: new, old, dark"):
        serve.gateway_settings(made)


def test_a_state_file_that_cannot_be_used_stops_the_start(tmp_path):
    (tmp_path / "ab.db").write_text("text")
    with pytest.raises(ConfigError, match=r"gateway\.experiment\.state"):
        serve.checked_settings(profile(tmp_path), own_engine=False)
