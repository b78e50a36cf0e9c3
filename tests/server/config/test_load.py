"""Profiles: found, merged, overridden, and refused in one line that names the key, the value and the remedy."""

from pathlib import Path

import pytest

from k25serve.server.config import load_profile, profile_names
from k25serve.server.errors import ConfigError

MODELS = {"K25_TARGET": "/models/target", "K25_DRAFTER": "/models/drafter"}


@pytest.mark.parametrize("name", profile_names())
def test_packaged_profiles_are_valid(name: str) -> None:
    profile = load_profile(name, environ=MODELS)
    assert profile.name == name
    assert not profile.target.startswith(("$", "packaged:"))


def test_extends_merges_sections() -> None:
    base, top = load_profile("cpu-tiny-nospec"), load_profile("cpu-tiny")
    assert top.engine == base.engine
    assert (base.speculation.algorithm, top.speculation.algorithm) == ("none", "eagle3")


def test_own_profile_extends_a_packaged_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: cpu-tiny\nengine: {port: 31999}\n")
    profile = load_profile(str(file), ["gateway.port=8123"])
    assert (profile.name, profile.engine.port, profile.gateway.port) == ("mine", 31999, 8123)
    assert profile.speculation.num_steps == 3


def test_profile_never_changes() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_profile("cpu-tiny").engine.port = 1


def test_models_may_stay_unset_where_they_are_not_needed() -> None:
    profile = load_profile("k25-int4-sm120x8", environ={}, need_models=False)
    assert (profile.target, profile.speculation.drafter) == ("$K25_TARGET", "$K25_DRAFTER")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("engine: {prot: 1}", "unknown key 'engine.prot' (did you mean 'port'?); remove it"),
        ("speculation: {steps: 3}", "unknown key 'speculation.steps'"),
        ("colour: red", "unknown key 'colour'; remove it"),
        ("engine: {port: 70000}", "engine.port = 70000: input should be less than or equal to 65535"),
        ("engine: {version: 0.4.0}", "engine.version = '0.4.0': this release supports SGLang 0.5.23 and 0.5.17"),
        ("engine: {port: 8000}", "engine.port and gateway.port are both 8000"),
        ("speculation: {drafter: null}", "algorithm eagle3 needs drafter"),
        ("speculation: {num_draft_tokens: 5}", "num_draft_tokens 5 with topk 1 must be num_steps + 1 = 4"),
        ("speculation: {algorithm: none}", "has no effect with algorithm none; remove it"),
        ("speculation: {algorithm: ngram}", "has no effect with algorithm ngram; remove it"),
        ("engine: {cuda_graph_batch_sizes: [1, 8]}", "ends at 8, below max_running_requests 16"),
        ("extends: nowhere", "profile 'nowhere' not found"),
        ("extends: 3", "extends must be a profile's name, found 3"),
        ("[1, 2]", "must be a mapping of keys, found list"),
        ("engine: [", "not valid YAML"),
    ],
)
def test_faults_are_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text if text.startswith(("extends", "[")) else f"extends: cpu-tiny\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_profile(str(file))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("target: /models/t\nserved_model_name: m\ncontext_length: 10\nengine: {device: cpu}\n")
    with pytest.raises(ConfigError, match=r"key 'engine\.mem_fraction_static' is missing; add it"):
        load_profile(str(file))


def test_extends_in_a_circle(tmp_path: Path) -> None:
    for name, parent in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"extends: {parent}\n")
    with pytest.raises(ConfigError, match="extends itself"):
        load_profile(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("engine.port", "write it as key=value"),
        ("engine.port=[", "not valid YAML"),
        ("name.x=1", "name is a single value"),
        ("engine.prot=1", "unknown key 'engine.prot' (did you mean 'port'?)"),
    ],
)
def test_bad_overrides(item: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_profile("cpu-tiny", [item])
    assert told in str(caught.value)


def test_unset_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"target: environment variable K25_TARGET is not set; export it"):
        load_profile("k25-int4-sm120x8", environ={})


def test_unknown_profile_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"profile 'k25' not found: .*k25-int4-sm120x8"):
        load_profile("k25")
