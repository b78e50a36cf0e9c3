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
        ("speculation: {adaptive: true}", "speculation.adaptive = True: input should be a valid string"),
        (
            "patches: {step_seconds: maybe}",
            "bad.yaml: patches.step_seconds = 'maybe': write true, false, or a mapping of",
        ),
        ("patches: {step_seconds: }", "patches.step_seconds = None: write true, false, or a mapping"),
        ("patches: {step_seconds: 1}", "patches.step_seconds = 1: write true, false, or a mapping"),
        ("patches: {lossy_expert_budget: {budget: [4]}}", "patches.lossy_expert_budget: budget = [4]: an option is a"),
        ("patches: {nosuch: true}", "bad.yaml: patches.nosuch: no such patch; there are mla_verify, "),
        ("patches: {adaptive_costs: true}", "patches.adaptive_costs has no effect without speculation.adaptive"),
        (
            "speculation: {adaptive: a.json}\npatches: {adaptive_costs: {explore_share: x}}",
            "patches.adaptive_costs.explore_share is 'x', expected a finite float",
        ),
        ("speculation: {algorithm: none}", "has no effect with algorithm none; remove it"),
        ("speculation: {algorithm: ngram}", "has no effect with algorithm ngram; remove it"),
        ("engine: {cuda_graph_batch_sizes: [1, 8]}", "ends at 8, below max_running_requests 16"),
        ("extends: nowhere", "profile 'nowhere' not found"),
        ("extends: 3", "extends must be a profile's name, found 3"),
        ("[1, 2]", "must be a mapping of keys, found list"),
        ("engine: [", "not valid YAML"),
        ("gateway: {arms: [{name: a, ulr: x}]}", "unknown key 'gateway.arms.0.ulr' (did you mean 'url'?); remove it"),
        ("gateway: {arms: [[{name: a}]]}", "gateway.arms.0 = [{'name': 'a'}]: must be a mapping of keys"),
        ("engine: {port: 1, port: 2}", "line 2: key 'port' is there twice, on lines 2 and 2; remove one"),
        ("name: a\nname: b", "line 3: key 'name' is there twice, on lines 2 and 3; remove one"),
        ("engine: {port: true}", "engine.port = True: input should be a valid integer"),
        ("gateway: {breaker: {failures: true}}", "gateway.breaker.failures = True: input should be a valid integer"),
        ("engine: {ready_timeout_s: .inf}", "line 2: '.inf' is no finite number"),
        ("gateway: {breaker: {open_s: .nan}}", "line 2: '.nan' is no finite number"),
        ("engine: {ready_timeout_s: 'inf'}", "engine.ready_timeout_s = 'inf'"),
        ("engine: {tp: 65}", "engine.tp = 65: input should be less than or equal to 64"),
        ("gateway: {workers: 65}", "gateway.workers = 65: input should be less than or equal to 64"),
        ("engine: {env: {'': x}}", "'' is no name of an environment variable"),
        ("engine: {env: {A=B: x}}", "'A=B' is no name of an environment variable"),
        ('engine: {env: {"A\\0": x}}', "'A\\x00' is no name of an environment variable"),
        ('engine: {env: {A: "x\\0"}}', "engine.env.A = 'x\\x00': holds a NUL character"),
        ('engine: {extra_args: ["x\\0"]}', "engine.extra_args.0 = 'x\\x00': holds a NUL character"),
        ("engine: {env: {A: 1}}", "engine.env.A = 1: input should be a valid string; quote it"),
        ("engine: {env: {on: x}}", "key 'on' is not text to YAML; quote it"),
        ("name: ../../x", "name = '../../x': use 1 to 64 letters"),
        ("name: ''", "name = '': use 1 to 64 letters"),
        ("name: '.x'", "name = '.x': use 1 to 64 letters"),
        ("target: ''", "target = '': is empty; give it a value"),
        ("served_model_name: ' '", "served_model_name = ' ': is empty; give it a value"),
        ('gateway: {host: "a\\nb"}', "gateway.host = 'a\\nb': holds a character that cannot be printed"),
        ("gate: {policy: off}", "gate.policy = False: input should be 'warn', 'refuse' or 'off'; YAML reads a bare on"),
        ("engine:", "key 'engine' is missing: nothing follows it; add its keys"),
        ("engine: 3", "engine = 3: must be a mapping of keys"),
        ("target: $", "target '$': write a variable as $NAME, ${NAME} or $NAME/FOLDER"),
        ("target: ${", "target '${': write a variable as"),
        ("engine: " + "[" * 220 + "]" * 220, "nest them less deeply"),
        ("target: $A-B", "target '$A-B': write a variable as"),
        ("target: ~nobody-of-that-name/x", "there is no such user's home; give the whole path"),
        ("target: packaged:x", "target 'packaged:x': nothing of that name; packaged are packaged:target and"),
        ("target: &a x\nname: *a", "line 3: alias *a; write the value out"),
        ("engine: " + "[" * 50_000, "nested too deeply"),
        ("context_length: " + "1" * 5000, "cannot be read as a value; correct or quote it"),
        ("context_length: 0x" + "f" * 50, "is too large a number"),
        ("context_length: 1" + ":00" * 100_000, "cannot be read as a value"),
        ("name: 2001-99-99", "'2001-99-99' cannot be read as a value; correct or quote it"),
        ("name: 2001-09-09", "'2001-09-09' is a date to YAML; quote it"),
        ("name: !!binary aGk=", "is a bytes to YAML; quote it"),
        ("engine: !!int ''", "'' cannot be read as a value"),
        ("engine: !!timestamp x", "'x' cannot be read as a value"),
        ("engine: !!bool x", "'x' cannot be read as a value"),
        ('name: "\\ud800"', "cannot be read as a value"),
        ("name: " + "x" * 100_000, "use 1 to 64 letters"),
        ("c" * 1000 + ": 1", "; remove it"),
        (
            "speculation: {algorithm: none, drafter: " + "x" * 100_000 + "}",
            "has no effect with algorithm none; remove it",
        ),
    ],
)
def test_faults_are_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text if text.startswith(("extends", "[")) else f"extends: cpu-tiny\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_profile(str(file))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\x7fELF\x00\xff", "not UTF-8 text (byte 5); save it as UTF-8"),
        ("name: \u00e9".encode("latin-1"), "not UTF-8 text (byte 6)"),
        ("name: x".encode("utf-16"), "not UTF-8 text (byte 0)"),
        (b"name: \x00", "not valid YAML"),
        (b"#" * (2**20 + 1), "larger than 1 MiB"),
    ],
    ids=["binary", "latin-1", "utf-16", "nul", "large"],
)
def test_files_that_hold_no_yaml(tmp_path: Path, raw: bytes, told: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        load_profile(str(file))
    assert told in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("/proc/self/mem", "cannot be read (Input/output error)"),
        ("/", "not found"),
        ("a" * 5000, "not found"),
        ("/" + "a" * 5000 + ".yaml", "not found"),
        ("a\0b/", "not found"),
        ("", "not found"),
        ("a\nb", "not found"),
    ],
)
def test_sources_that_are_no_file(source: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_profile(source)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_long_chain(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"p{number}.yaml").write_text(f"extends: p{number + 1}\n")
    (tmp_path / "p40.yaml").write_text("extends: cpu-tiny\n")
    assert load_profile(str(tmp_path / "p30.yaml")).name == "p30"
    with pytest.raises(ConfigError, match=r"p0\.yaml: extends more than 16 profiles in a row; shorten the chain"):
        load_profile(str(tmp_path / "p0.yaml"))


def test_file_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MINE.YAML", "mine"):
        (tmp_path / name).write_text("extends: cpu-tiny\n")
        assert load_profile(name).name == name.removesuffix(".YAML")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("$T", "/models/t"),
        ("${T}", "/models/t"),
        ("$T/x y", "/models/t/x y"),
        ("${T}/x", "/models/t/x"),
        ("~/x", "/h/x"),
    ],
)
def test_forms_of_a_folder(monkeypatch: pytest.MonkeyPatch, target: str, expected: str) -> None:
    monkeypatch.setenv("HOME", "/h")
    assert load_profile("cpu-tiny", [f"target='{target}'"], {"T": "/models/t"}).target == expected


def test_file_whose_name_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "a\udcff.yaml"
    file.write_text("extends: cpu-tiny\n")
    with pytest.raises(ConfigError, match="use 1 to 64 letters"):
        load_profile(str(file))


def test_variable_that_is_not_text() -> None:
    with pytest.raises(ConfigError, match=r"target = '/x.udcff', from T: holds characters that are no text"):
        load_profile("cpu-tiny", ["target=$T"], {"T": "/x\udcff"})


def test_entry_needs_a_drafter() -> None:
    with pytest.raises(ConfigError, match=r"gate\.entry 'a/b' has no effect with algorithm none; remove it"):
        load_profile("cpu-tiny-nospec", ["gate.entry=a/b"])


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
        ("engine.port=" + "[" * 50_000, "nested too deeply"),
        ("engine.port=" + "1" * 5000, "cannot be read as a value"),
        (
            "engine.ready_timeout_s=.inf",
            "--set 'engine.ready_timeout_s=.inf': not valid YAML: line 1: '.inf' is no finite",
        ),
        ("\udcff=1", "write them in UTF-8"),
        ("target=\udcff", "not valid YAML"),
        ("a" + ".a" * 5000 + "=1", "write it as key=value"),
        ("gateway.arms=[{name: a, ulr: x}]", "unknown key 'gateway.arms.0.ulr' (did you mean 'url'?)"),
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
