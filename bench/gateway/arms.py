"""The gateways that are compared, as data, and how each is started."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

KEY = "sk-bench"
"""For litellm, which starts only with a key."""


class Arm(NamedTuple):
    """`requirements`: what to install in an environment of its own; empty: it runs in ours.

    `command` gets the program folder of its environment, its port, the engine's port and a folder for its files.
    """

    name: str
    command: Callable[[Path, int, int, Path], list[str]]
    requirements: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    authorization: str = ""
    start_s: float = 30.0
    cap_s: float = 60.0
    """For each visit's series; a slow gateway is cut short."""
    many: int = 20_000
    """Requests in the memory part."""


class NotInstalledError(Exception):
    """A peer's packages could not be installed."""


def _raw(_: Path, port: int, engine: int, __: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "k25serve.bench.gateway.raw", str(port), f"http://127.0.0.1:{engine}"]


def _ours(_: Path, port: int, engine: int, __: Path) -> list[str]:
    keys = {
        "served_model_name": "bench",
        "context_length": 262_144,
        "engine.port": engine,
        "gateway.port": port,
    }
    settings = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-P", "-m", "k25serve.server.main", "gateway", "--profile", "cpu-tiny-nospec", *settings]


def _router(program: str, *more: str) -> Callable[[Path, int, int, Path], list[str]]:
    def command(programs: Path, port: int, engine: int, _: Path) -> list[str]:
        words = f"--host 127.0.0.1 --port {port} --worker-urls http://127.0.0.1:{engine} --policy round_robin"
        # Their metrics ports are taken by default, by whoever comes first.
        return [
            str(programs / program),
            *more,
            *words.split(),
            "--log-level",
            "error",
            "--prometheus-port",
            str(port + 1),
        ]

    return command


def _litellm(programs: Path, port: int, engine: int, files: Path) -> list[str]:
    config = files / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: bench\n  litellm_params:\n    model: openai/bench\n"
        f"    api_base: http://127.0.0.1:{engine}/v1\n    api_key: none\n"
        f"litellm_settings:\n  num_retries: 0\n  telemetry: false\ngeneral_settings:\n  master_key: {KEY}\n"
    )
    words = f"--config {config} --host 127.0.0.1 --port {port} --num_workers 1"
    return [str(programs / "litellm"), *words.split()]


ARMS = (
    Arm("raw", _raw),
    Arm("k25serve", _ours, many=100_000),
    Arm("sglang-router", _router("sglang-router", "launch"), ("sglang-router==0.3.2",)),
    Arm("smg", _router("smg", "launch"), ("smg==1.13.0",)),
    Arm("vllm-router", _router("vllm-router"), ("vllm-router==0.1.17",)),
    Arm(
        "litellm",
        _litellm,
        # Without the SDK it retries a failing import on every request.
        ("litellm[proxy]==1.108.7", "opentelemetry-sdk"),
        env=(("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("LITELLM_MASTER_KEY", KEY), ("LITELLM_LOG", "ERROR")),
        authorization=f"Bearer {KEY}",
        start_s=90.0,
        cap_s=15.0,
    ),
)
"""Peers at their defaults: retries, breaker and metrics on; one worker; logs at errors only."""


def environment(arm: Arm, cache: Path) -> Path:
    """The folder of an arm's programs; makes its environment, with uv, where it isn't there yet.

    Raises:
        NotInstalledError: uv is missing, or can't install it.
    """
    if not arm.requirements:
        return Path(sys.executable).parent
    folder = cache / "_".join(arm.requirements).replace("[", "-").replace("]", "")
    done = folder / "installed"
    if not done.exists():
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        _run(["uv", "venv", "--quiet", "--clear", "--python", python, str(folder)])
        _run(["uv", "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *arm.requirements])
        done.touch()
    return folder / "bin"


def variables(arm: Arm, engine: int) -> dict[str, str]:
    """The environment variables of an arm's process. What would ask the internet is sent to the engine instead."""
    unwanted = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    own = {name: value for name, value in os.environ.items() if name not in unwanted}
    return own | {"HF_ENDPOINT": f"http://127.0.0.1:{engine}", "HF_HUB_OFFLINE": "1"} | dict(arm.env)


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotInstalledError(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise NotInstalledError(str(error.stderr).strip()[-300:]) from error
