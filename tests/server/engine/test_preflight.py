"""Each thing that would stop the engine later is told before it is started, with its remedy."""

import errno
import json
import os
import socket
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from drafter_files.files import INDEX, hole, write_file

from k25serve.server.config import Profile, load_profile
from k25serve.server.engine import preflight
from k25serve.server.engine.free_memory import available_ram
from k25serve.server.errors import PreflightError


def profile(*overrides: str) -> Profile:
    return load_profile("cpu-tiny", overrides)


def make_model(folder: Path, config: object = None) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config or {"architectures": ["X"]}))
    write_file(folder / "model.safetensors", {"w": hole(500)})
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
    assert f"engine.port 127.0.0.1:{port} cannot be opened (Address already in use by pid {os.getpid()}, " in message
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
    assert preflight.weight_bytes(good) == (tmp_path / "good" / "model.safetensors").stat().st_size > 1000
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
        ([10**9, None], ""),
    ],
)
def test_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int | None], expected: str) -> None:
    model = make_model(tmp_path / "m")
    on_gpu = profile(f"target={model}", f"speculation.drafter={model}", "engine.device=cuda", "engine.tp=2")
    monkeypatch.setattr(preflight, "free_gpu_bytes", lambda: free)
    monkeypatch.setattr(preflight.shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    if expected:
        assert expected in told(preflight.check_memory, on_gpu)
    else:
        preflight.check_memory(on_gpu)


def test_no_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert preflight.free_gpu_bytes() == []
    assert "nvidia-smi, which lists the GPUs, is not on PATH" in told(
        preflight.check_memory, profile("engine.device=cuda")
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#!/bin/sh\necho 100; echo '[N/A]'; echo '[Not Supported]'", [100 * 2**20, None, None]),
        ("#!/bin/sh\necho No devices were found", []),
        ("#!/bin/sh\nprintf '\\377\\n7\\n'", [7 * 2**20]),
        ("#!/bin/sh\nexit 9", []),
        ("no program", []),
    ],
    ids=["unknown", "none", "binary", "fails", "format"],
)
def test_odd_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: list[int | None]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert preflight.free_gpu_bytes() == expected


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda folder: (folder / "z.safetensors").symlink_to(folder / "gone"), "z.safetensors: no such file"),
        (lambda folder: (folder / "z.safetensors").mkdir(), "z.safetensors: no such file (a folder"),
        (lambda folder: os.truncate(folder / "model.safetensors", 600), "the download is not complete"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "config.json: nested too deeply"),
        (lambda folder: (folder / "config.json").write_text("[1]"), "config.json: holds no JSON object"),
        (lambda folder: (folder / "config.json").write_bytes(b"\xff\xff"), "config.json: not valid JSON"),
        (lambda folder: (folder / INDEX).write_text("[" * 100_000), f"{INDEX}: nested too deeply"),
        (lambda folder: (folder / INDEX).write_text('{"weight_map": 1}'), "has no weight_map"),
        (
            lambda folder: (folder / INDEX).write_text('{"weight_map": {"a": "model.safetensors", "b": "b-2"}}'),
            f"1 shards of {INDEX} are missing, the first is 'b-2'",
        ),
    ],
    ids=["link", "folder", "truncated", "deep", "list", "binary", "deep index", "index", "shard"],
)
def test_damaged_model(tmp_path: Path, damage: Callable[[Path], object], expected: str) -> None:
    folder = make_model(tmp_path / "m")
    preflight.check_model("target", folder)
    damage(tmp_path / "m")
    message = told(preflight.check_model, "target", folder)
    assert message.startswith("target ")
    assert expected in message


def test_dangling_weights_have_no_size(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").symlink_to("gone")
    assert "a.safetensors: cannot be read (No such file or directory)" in told(preflight.weight_bytes, str(tmp_path))


def test_path_that_cannot_be_a_folder() -> None:
    assert "cannot be read (File name too long)" in told(preflight.check_model, "target", "/" + "a" * 300)


def test_tokenizer(tmp_path: Path) -> None:
    assert "has no tokenizer (tokenizer.json" in told(preflight.check_tokenizer, "target", str(tmp_path))
    (tmp_path / "tiktoken.model").touch()
    preflight.check_tokenizer("target", str(tmp_path))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "a" * 300, "x\0y", "fe80::zz", "999.1.1.1"])
def test_host_that_is_not_here(host: str) -> None:
    message = told(preflight.check_port, "gateway.port", host, 31999)
    assert message.startswith("gateway.host '")
    assert "give an address of this machine, for example --set gateway.host=127.0.0.1" in message


def test_privileged_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(preflight.socket.socket, "bind", refuse)
    message = told(preflight.check_port, "gateway.port", "127.0.0.1", 80)
    assert "(Permission denied); ports below 1024 are privileged" in message


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("/a/b", {}, 1000 * 1024),
        ("/a/b", {"": "max", "a": "max", "a/b": "500"}, 500 - 100 + 30),
        ("/a/b", {"": "900", "a": "300", "a/b": "500"}, 300 - 100 + 30),
        ("/../x", {"": "400"}, 400 - 100 + 30),
        ("/", {"": "400", "a": "200"}, 400 - 100 + 30),
    ],
)
def test_least_limit_of_the_own_cgroups(tmp_path: Path, own: str, limits: dict[str, str], expected: int) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 2000 kB\nMemAvailable: 1000 kB\n")
    (proc / "self" / "cgroup").write_text(f"4:memory:/v1\n0::{own}\n")
    for group, limit in limits.items():
        folder = groups / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("100\n")
        (folder / "memory.stat").write_text("anon 70\ninactive_file 30\n")
    assert available_ram(proc, groups) == expected


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
