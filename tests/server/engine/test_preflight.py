"""Each thing that would stop the engine later is told before it is started, with its remedy."""

import json
import socket
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from k25serve.server.config import Profile, load_profile
from k25serve.server.engine import preflight
from k25serve.server.errors import PreflightError


def profile(*overrides: str) -> Profile:
    return load_profile("cpu-tiny", overrides)


def make_model(folder: Path, config: object = None) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config or {"architectures": ["X"]}))
    (folder / "model.safetensors").write_bytes(b"x" * 1000)
    return str(folder)


def told(check: object, *args: object) -> str:
    assert callable(check)
    with pytest.raises(PreflightError) as caught:
        check(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = told(preflight.check_port, "engine.port", "127.0.0.1", port)
    assert f"engine.port 127.0.0.1:{port} cannot be opened (Address already in use)" in message
    assert "--set engine.port=PORT" in message
    preflight.check_port("engine.port", "127.0.0.1", port)


def test_sglang_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(preflight, "version", missing)
    assert "SGLang is not installed here; install 0.5.23 or 0.5.17" in told(preflight.check_sglang, profile())


def test_sglang_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "version", lambda _: "0.5.20")
    message = told(preflight.check_sglang, profile())
    assert "SGLang 0.5.20 is installed, profile cpu-tiny asks for 0.5.23 (supported: 0.5.23 or 0.5.17)" in message


def test_cpu_needs_the_version_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "version", lambda _: "0.5.17")
    message = told(preflight.check_sglang, profile("engine.version=0.5.17"))
    assert "SGLang 0.5.17 runs on GPUs only here; the CPU needs 0.5.23" in message


def test_installed_sglang_passes() -> None:
    preflight.check_sglang(profile())


def test_model_folder(tmp_path: Path) -> None:
    assert "no such folder" in told(preflight.check_model, "target", str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    assert "has no config.json" in told(preflight.check_model, "target", str(tmp_path / "empty"))
    good = make_model(tmp_path / "good")
    preflight.check_model("target", good)
    assert preflight.weight_bytes(good) == 1000
    (tmp_path / "good" / "model.safetensors").unlink()
    assert "holds no *.safetensors" in told(preflight.check_model, "target", good)
    (tmp_path / "good" / "config.json").write_text("{")
    assert "not valid JSON" in told(preflight.check_model, "target", good)
    assert "has no 'architectures'" in told(preflight.check_model, "target", make_model(tmp_path / "odd", {"a": 1}))


def test_no_room_in_ram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = profile(f"target={make_model(tmp_path / 'm')}", "speculation.algorithm=none", *NO_DRAFTER)
    monkeypatch.setattr(preflight, "available_ram", lambda: 3 * preflight.GIB)
    message = told(preflight.check_memory, small)
    assert "no room in memory" in message
    assert "needs about 4.0 GiB at tp 1, 3.0 GiB are available" in message
    monkeypatch.setattr(preflight, "available_ram", lambda: 5 * preflight.GIB)
    preflight.check_memory(small)


NO_DRAFTER = ("speculation.drafter=null", "speculation.num_steps=null", "speculation.num_draft_tokens=null")


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ([], "engine.tp 2 needs 2 GPUs, nvidia-smi lists 0"),
        ([10**9, 100], "GPU 1 has 0.0 GiB free, its share of the weights is"),
        ([10**9, 10**9], ""),
    ],
)
def test_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int], expected: str) -> None:
    model = make_model(tmp_path / "m")
    on_gpu = profile(f"target={model}", f"speculation.drafter={model}", "engine.device=cuda", "engine.tp=2")
    monkeypatch.setattr(preflight, "free_gpu_bytes", lambda: free)
    if expected:
        assert expected in told(preflight.check_memory, on_gpu)
    else:
        preflight.check_memory(on_gpu)


def test_available_ram_is_plausible() -> None:
    assert 2**20 < preflight.available_ram() < 2**44


def test_ngram_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    ngram = load_profile("cpu-tiny-nospec", ["speculation.algorithm=ngram", "speculation.num_draft_tokens=4"])
    monkeypatch.setenv("CXX", "no-such-compiler")
    message = told(preflight.check_compiler, ngram)
    assert "with no-such-compiler, which is not on PATH; install it (Debian: apt-get install g++)" in message
    preflight.check_compiler(profile())
    monkeypatch.setenv("CXX", "true")
    preflight.check_compiler(ngram)
