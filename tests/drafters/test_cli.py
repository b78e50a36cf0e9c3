"""The commands: tables and JSON, exit codes, and one line for every mistake."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from drafter_files.toy import write_drafter, write_target
from typer.testing import CliRunner, Result

from k25serve.drafters.adapters import ADAPTERS
from k25serve.drafters.cli import Adapters, Targets, app
from k25serve.drafters.gate.host import Host
from k25serve.drafters.registry import load_registry


def no_boot(_profile: str) -> Any:
    raise AssertionError("no profile is started here")


HOST = Host(no_boot, lambda _kind: lambda _data, folder: folder)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], obj=HOST)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return write_drafter(tmp_path / "drafter"), write_target(tmp_path / "target")


def test_check_exit_codes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    drafter, target = folders
    fits = run("check", "--drafter", drafter, "--target", target)
    assert (fits.exit_code, "22 pass, 0 warn, 0 refuse" in fits.output) == (0, True)
    refused = run("check", "--drafter", drafter, "--target", target, "--context-length", 1024, "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.output)["verdict"] == "refuse"
    doubtful = write_drafter(tmp_path / "d", {"eagle_config": None})
    assert run("check", "--drafter", doubtful, "--target", target, "--accept-default-aux").exit_code == 3
    assert run("check", "--drafter", doubtful, "--target", target).exit_code == 1


def test_check_options_reach_the_rules(folders: tuple[Path, Path], tmp_path: Path) -> None:
    drafter, _ = folders
    packed = write_target(tmp_path / "t", text={"quantization_config": {"quant_method": "compressed-tensors"}})
    words = ("check", "--drafter", drafter, "--target", packed)
    assert run(*words).exit_code == 0
    assert run(*words, "--draft-quantization", "inherit").exit_code == 1
    assert run(*words, "--aux-convention", "output").exit_code == 1
    assert run(*words, "--entry", "Kimi-K25-eagle3").exit_code == 0


def test_adapt_then_check(folders: tuple[Path, Path], tmp_path: Path) -> None:
    _, target = folders
    short = write_drafter(tmp_path / "short", {"max_position_embeddings": 256, "head_dim": None})
    done = run("adapt", "kimi_k2", "--drafter", short, "--target", target, "--out", tmp_path / "out")
    assert done.exit_code == 3
    assert "- head_dim 8 written down" in done.output
    assert "- max_position_embeddings 256 raised to 512" in done.output
    vllm = run("adapt", "vllm", "--drafter", tmp_path / "out", "--target", target, "--out", tmp_path / "vllm")
    assert vllm.exit_code == 0
    assert "checked: d2t maps to distinct ids" in vllm.stdout
    assert "does not apply to vLLM's form" in vllm.stdout
    words = ("adapt", "vllm", "--drafter", tmp_path / "out", "--target", target, "--out", tmp_path / "again", "--json")
    value = json.loads(run(*words).stdout)
    assert (value["adapter"], len(value["checks"])) == ("vllm", 6)
    listed = json.loads((tmp_path / "vllm" / "config.json").read_text())["eagle_aux_hidden_state_layer_ids"]
    assert listed == [2, 4, 5]
    words = ("adapt", "eagle", "--drafter", short, "--target", target, "--out", tmp_path / "three", "--json")
    layered = CliRunner().invoke(app, [*map(str, words), "--layout", "layers", "--aux-layers", "1,3,4"])
    assert json.loads(layered.stdout)["verdict"] == "refuse"
    assert "written:" in layered.stderr


def test_list_and_show() -> None:
    listed = json.loads(run("list", "--for", "K2.5", "--json").output)
    assert listed["K2.5"][0]["trained_for"] == "K2.5"
    # 80 columns, as where the output is no terminal.
    assert "lightseekorg/kimi-k2.5-eagle3-mla eagle3 MLA" in " ".join(run("list").output.split())
    shown = json.loads(run("show", "kimi-k2-instruct-eagle3", "--json").output)
    assert shown["acceptance"][0]["class"] == "code"
    assert "hf download" in run("show", "AQ-MedAI/Kimi-K2-Instruct-eagle3").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("check", "--drafter", "none", "--target", "none"), "none: no such folder; download"),
        (("check", "--drafter", ".", "--target", ".", "--entry", "x"), "drafter 'x': not in the registry"),
        (("adapt", "eagle", "--drafter", "d", "--out", "o", "--aux-layers", "a"), "--aux-layers a: not numbers"),
        (("show", "zzz"), "k25serve drafter list names all"),
        (("gate", "--url", "http://127.0.0.1:9"), "cannot be reached"),
        (("compare", "none"), "arm 'none': not NAME=URL"),
        (("compare", "a=127.0.0.1:9"), "the scheme is missing; give a=http://127.0.0.1:9"),
        (("compare", "a=cpu-tiny", "--baseline", "b"), "--baseline b: is none of a"),
        (("gate", "--url", "127.0.0.1:9"), "the scheme is missing; pass http://127.0.0.1:9"),
        (
            ("adapt", "specforge", "--drafter", "d", "--out", "o", "--layout", "layers"),
            "--layout: the adapter specforge does not use it; leave it out (taken by eagle)",
        ),
        (("adapt", "eagle", "--drafter", "d", "--out", "o", "--counts", "rank"), "(taken by kimi_k2)"),
        (("compare", "a=http://127.0.0.1:9"), "cannot be reached"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("k25serve: error: ")


def test_a_path_that_cannot_be_written(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("adapt", "eagle", "--drafter", folders[0], "--out", tmp_path / "file" / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"k25serve: error: {tmp_path}/file")


def test_every_adapter_and_target_can_be_named() -> None:
    assert get_args(Adapters) == tuple(ADAPTERS)
    assert get_args(Targets) == tuple(load_registry().first)


@pytest.mark.parametrize("command", ["check", "adapt", "gate"])
def test_codes_are_in_the_help(command: str) -> None:
    told = " ".join(run(command, "--help").output.split())
    assert "0 pass, 1 refuse, 3 warn; 2 a mistake" in told


@pytest.mark.parametrize(("words", "most_s"), [(["list"], 3), (["check", "--help"], 3)])
def test_starts_fast_and_light(words: list[str], most_s: float) -> None:
    code = (
        "import sys, time; clock = time.perf_counter()\n"
        "from k25serve.drafters.cli import app\n"
        f"app({words!r}, standalone_mode=False)\n"
        "names = ('torch', 'numpy', 'transformers', 'safetensors', 'sglang')\n"
        "heavy = [name for name in names if name in sys.modules]\n"
        "print(heavy, time.perf_counter() - clock, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    heavy, seconds = done.stderr.strip().rsplit(" ", 1)
    assert heavy == "[]"
    assert float(seconds) < most_s
