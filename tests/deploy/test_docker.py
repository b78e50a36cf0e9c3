"""Images and compose, as far as they can be checked without an engine of containers: every name in them exists."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from k25serve.deploy.systemd.render import stop_seconds
from k25serve.server.cli import app
from k25serve.server.config import load_profile, profile_names

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
DOCKERFILES = sorted(path.name for path in DOCKER.glob("*.Dockerfile"))
FOLDERS = {"K25_TARGET": "/models/target", "K25_DRAFTER": "/models/drafter"}


def instructions(name: str) -> list[tuple[str, str]]:
    """Keyword and rest of each instruction, continued lines joined, comments left out."""
    lines = [line for line in (DOCKER / name).read_text().splitlines() if not line.startswith("#")]
    return [
        (keyword, rest)
        for keyword, _, rest in (line.partition(" ") for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n"))
        if keyword
    ]


def substituted(value: Any) -> Any:
    """As compose fills variables: `${NAME:-default}` and `${NAME:?message}`."""
    if isinstance(value, list):
        return [substituted(item) for item in value]
    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda m: FOLDERS.get(m[1], m[2] or ""), value)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfile(name: str) -> None:
    found = instructions(name)
    assert {keyword for keyword, _ in found} <= {
        *("FROM", "COPY", "RUN", "ENV", "WORKDIR", "VOLUME", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD")
    }
    for keyword, rest in found:
        if keyword == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources), rest
        if keyword == "FROM":
            assert re.search(r":[\w.]*\d", rest), f"{rest}: no version"
    for path in re.findall(r"(?:deploy|server|bench|drafters|patches)/[\w./-]+", (DOCKER / name).read_text()):
        assert (ROOT / path).exists(), path
    assert dict(found)["USER"] == "10001"
    assert json.loads(dict(found)["ENTRYPOINT"]) == ["k25serve"]
    assert f"docker build -f deploy/docker/{name}" in (DOCKER / name).read_text()


def test_the_lock_is_for_the_cuda_of_the_image() -> None:
    lock = (ROOT / "deploy" / "locks" / "cuda.txt").read_text()
    image = next(rest for keyword, rest in instructions("engine.Dockerfile") if "nvidia/cuda" in rest)
    toolkit = re.search(r"^cuda-toolkit==(\d+\.\d+)", lock, re.MULTILINE)
    assert toolkit is not None
    assert f"nvidia/cuda:{toolkit[1]}." in image
    assert "-devel-" in image  # nvcc: kernels are compiled at run time


def test_what_is_not_sent_to_the_builder() -> None:
    """The build needs every package; models of tests and results of benchmarks are not part of it."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv"} <= set(ignored)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    needed = [
        path for path in tracked if path.endswith((".py", ".yaml", ".toml")) and not path.startswith("bench/results")
    ]
    assert not [path for path in needed for name in ignored if path.startswith(f"{name}/")]


@pytest.mark.parametrize("service", [name for name, service in COMPOSE["services"].items() if "build" in service])
def test_services_of_ours(service: str) -> None:
    """Each builds what there is, and its command is one that k25serve takes."""
    described = COMPOSE["services"][service]
    build = described["build"]
    assert (DOCKER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    command = substituted(described["command"])
    profiles = [command[at + 1] for at, word in enumerate(command) if word == "--profile"]
    assert set(profiles) <= set(profile_names())
    help_of = [*command[: 2 if command[0] == "deploy" else 1], "--help"]
    told = CliRunner().invoke(app, help_of, env={"COLUMNS": "200", "TERM": "dumb"})
    assert told.exit_code == 0
    for word in command:
        assert not word.startswith("--") or word in told.output, word
    for at, word in enumerate(command):
        if word == "--set":
            load_profile(profiles[0], [command[at + 1]], FOLDERS)


def test_limits_and_volumes() -> None:
    services = COMPOSE["services"]
    profile = load_profile("k25-int4-sm120x8", (), FOLDERS)
    grace = {name: int(services[name]["stop_grace_period"].removesuffix("s")) for name in ("engine", "gateway")}
    assert grace["engine"] >= stop_seconds(profile)
    assert grace["gateway"] > profile.gateway.drain_s + profile.gateway.drain_notice_s
    named = {
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", ())
        if "$" not in volume
    }
    assert named == COMPOSE["volumes"].keys()
    kept = next(rest for keyword, rest in instructions("engine.Dockerfile") if keyword == "VOLUME")
    assert {volume.split(":")[1] for volume in services["engine"]["volumes"] if "$" not in volume} == set(
        json.loads(kept)
    )


def test_prometheus_and_grafana_read_what_is_made(tmp_path: Path) -> None:
    """The paths in compose's commands are those that our commands write."""
    services = COMPOSE["services"]
    for service, option in (("prometheus-files", "--output"), ("grafana-files", "--output")):
        command = substituted(services[service]["command"])
        folder = Path(command[command.index(option) + 1])
        command[command.index(option) + 1] = str(tmp_path / folder.name)
        assert CliRunner().invoke(app, command, env=FOLDERS).exit_code == 0
    made = Path("/var/lib/k25serve/made")
    config = next(word for word in services["prometheus"]["command"] if word.startswith("--config.file="))
    provisioning = services["grafana"]["environment"]["GF_PATHS_PROVISIONING"]
    for path in (config.removeprefix("--config.file="), provisioning):
        assert (tmp_path / Path(path).relative_to(made)).exists(), path
