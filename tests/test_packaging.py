"""What is installed is what the tree holds, and the gateway's install stays light."""

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = ("server", "patches", "drafters", "bench", "deploy")


def test_package_list_is_the_tree() -> None:
    folders = [init.parent.relative_to(ROOT) for name in FOLDERS for init in (ROOT / name).rglob("__init__.py")]
    found = sorted(".".join(("k25serve", *folder.parts)) for folder in folders)
    assert found == PROJECT["tool"]["setuptools"]["packages"]


def test_every_folder_with_code_is_a_package() -> None:
    modules = {path.parent for f in FOLDERS for path in (ROOT / f).rglob("*.py") if "models" not in path.parts}
    assert [folder for folder in modules if not (folder / "__init__.py").is_file()] == []


def test_data_files_are_packaged() -> None:
    """Every file that is not code, in a folder with code, is taken by a pattern of its package."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    packages = [name.removeprefix("k25serve.").replace(".", "/") for name in PROJECT["tool"]["setuptools"]["packages"]]
    tracked = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = []
    for name in tracked.stdout.splitlines():
        path = Path(name)
        if path.suffix in (".py", ".md") or name.startswith(("bench/results/", "deploy/")) or path.name == "py.typed":
            continue
        owner = max((package for package in packages if name.startswith(f"{package}/")), key=len)
        inside = path.relative_to(owner)
        taken = patterns.get(f"k25serve.{owner.replace('/', '.')}", [])
        if not any(inside.match(pattern) and len(inside.parts) == len(Path(pattern).parts) for pattern in taken):
            missing.append(name)
    assert missing == []
    assert patterns["k25serve.deploy"] == ["profiles/*.yaml"]


def test_entry_points_load() -> None:
    (script,) = entry_points(group="console_scripts", name="k25serve")
    assert callable(script.load())
    (plugin,) = entry_points(group="sglang.srt.plugins", name="k25serve")
    assert plugin.value == "k25serve.patches.plugin:register"


def test_locks_hold_the_pins() -> None:
    locks = ROOT / "deploy" / "locks"
    cpu, cuda = ((locks / name).read_text().splitlines() for name in ("cpu.txt", "cuda.txt"))
    assert "sglang==0.5.23" in cpu
    assert "sglang==0.5.23" in cuda
    left_out = {
        line.split(" ;")[0] for line in (locks / "cpu-overrides.txt").read_text().splitlines() if line[0] != "#"
    }
    named = {line.split("==")[0] for line in cpu}
    assert len(left_out) == 28
    assert left_out.isdisjoint(named)
    assert {"sglang-kernel", "flashinfer-python"} <= {line.split("==")[0] for line in cuda}
    assert {"dill", "jsonschema", "openai", "pytest", "ruff"} <= named


@pytest.mark.parametrize("heavy", ["torch", "sglang", "triton", "transformers"])
def test_gateway_install_is_light(heavy: str) -> None:
    assert not any(heavy in requirement for requirement in PROJECT["project"]["dependencies"])


def test_command_line_imports_nothing_heavy() -> None:
    """Nor do the groups of commands, which are imported when one of theirs is called, or help is asked for."""
    heavy = ("torch", "sglang", "transformers", "triton", "numpy", "scipy", "safetensors", "aiohttp", "fastapi")
    code = (
        "import sys, importlib; from k25serve.server.cli import ELSEWHERE;"
        "assert not any(place.partition(':')[0] in sys.modules for place in ELSEWHERE.values());"
        "[importlib.import_module(place.partition(':')[0]) for place in ELSEWHERE.values()];"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
