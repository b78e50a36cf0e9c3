"""Processes to observe: a simulated engine, and a gateway alone."""

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import yaml
from e2e.stack import COMMAND, free_ports
from observing.server import until

START_S = 30
MODEL = "kimi-k2.5-tiny"


@contextlib.contextmanager
def process(log: Path, *command: str | Path) -> Iterator[None]:
    with log.open("w") as file:
        started = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        started.terminate()
        started.wait(START_S)


@contextlib.contextmanager
def simulated_vllm(folder: Path, *arguments: str) -> Iterator[str]:
    """URL of a simulated engine in vLLM's dialect."""
    (port,) = free_ports(1)
    module = (sys.executable, "-P", "-m", "k25serve.bench.engine_sim")
    fixed = ("--dialect", "vllm", "--port", str(port), "--served-model-name", MODEL)
    with process(folder / "sim.txt", *module, *fixed, *arguments):
        until(lambda: "simulated engine on" in (folder / "sim.txt").read_text(), START_S)
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def gateway(
    folder: Path, engine_port: int, arms: list[dict[str, object]], **more: object
) -> Iterator[tuple[str, Path]]:
    """URL and profile of `k25serve gateway` before `arms`; ready once it answers for each. more: keys of `gateway`."""
    (port,) = free_ports(1)
    profile = folder / "observed.yaml"
    data = {"extends": "cpu-tiny", "engine": {"port": engine_port}, "gateway": {"port": port, "arms": arms, **more}}
    profile.write_text(yaml.safe_dump(data))
    url = f"http://127.0.0.1:{port}"
    with process(folder / "gateway.txt", COMMAND, "gateway", "-p", profile):
        until(lambda: _ready_arms(url) == len(arms), START_S, (folder / "gateway.txt").read_text)
        yield url, profile


def page(url: str) -> str:
    """A /metrics page."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        return str(answer.read().decode())


def _ready_arms(url: str) -> int:
    try:
        lines = page(url).splitlines()
    except OSError:
        return 0
    return sum(line.startswith("k25serve_gateway_arm_ready{") and line.endswith(" 1.0") for line in lines)
