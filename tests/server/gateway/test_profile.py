"""What a profile's gateway section becomes."""

import pytest
from rich.console import Console

from k25serve.server import serve
from k25serve.server.config import load_profile
from k25serve.server.errors import ConfigError


def settings(*overrides):
    return serve.gateway_settings(load_profile("cpu-tiny", list(overrides), need_models=False))


def profile(tmp_path, gateway):
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: cpu-tiny\nname: mine\ngateway: {gateway}\n")
    return load_profile(str(file), [], need_models=False)


def test_without_arms_it_is_the_profiles_own_engine():
    (arm,) = settings("engine.port=31234").every_arm
    assert (arm.name, arm.url, arm.dialect) == ("sglang", "http://127.0.0.1:31234", "sglang")


def test_the_own_engine_comes_first(tmp_path):
    arms = "[{name: old, url: 'http://127.0.0.1:1', dialect: vllm, weight: 0.1}, {name: new, max_concurrency: 64}]"
    made = serve.gateway_settings(profile(tmp_path, f"{{arms: {arms}, reasoning_field: reasoning}}"))
    assert [(arm.name, arm.weight, arm.max_concurrency) for arm in made.every_arm] == [
        ("new", 1.0, 64),
        ("old", 0.1, 2048),
    ]
    assert made.reasoning_field == "reasoning"


def test_a_mistake_names_the_key(tmp_path):
    with pytest.raises(ConfigError, match="gateway"):
        serve.gateway_settings(profile(tmp_path, "{arms: [{name: a, url: 'http://127.0.0.1:1/v1'}]}"))


async def test_strangers_need_keys():
    open_wide = load_profile("cpu-tiny", ["gateway.host=0.0.0.0", "gateway.port=31207"], need_models=False)
    with pytest.raises(ConfigError, match="keys_file"):
        await serve.serve_gateway(open_wide, Console())
