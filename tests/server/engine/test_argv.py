"""What SGLang would otherwise choose badly or silently is pinned, and its own parser takes every flag."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from k25serve.patches.manifest.switches import SWITCHES_ENV
from k25serve.server.config import Profile, load_profile, profile_names
from k25serve.server.engine.argv import DIE_AT_ONCE, engine_argv, engine_command, engine_env
from k25serve.server.errors import ConfigError

MODELS = {"K25_TARGET": "/models/target", "K25_DRAFTER": "/models/drafter"}
K25 = [name for name in profile_names() if name.startswith("k25-")]

ON_PATH = {"PATH": str(Path(sys.executable).parent)}

PARSE = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser(allow_abbrev=False)
ServerArgs.add_cli_args(parser)
print(json.dumps([vars(parser.parse_args(argv)) for argv in json.load(sys.stdin)], default=str))
"""


def profile(name: str, *overrides: str) -> Profile:
    return load_profile(name, overrides, environ=MODELS)


@pytest.fixture(scope="module")
def parsed() -> dict[str, dict[str, Any]]:
    """Each profile's argv as SGLang's own parser reads it."""
    argvs = [engine_argv(profile(name)) for name in profile_names()]
    answer = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", PARSE],
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return dict(zip(profile_names(), json.loads(answer.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", K25)
def test_pins_of_the_real_deployment(parsed: dict[str, dict[str, Any]], name: str) -> None:
    args = parsed[name]
    assert args["max_running_requests"] == 128
    assert max(args["cuda_graph_bs_decode"]) == 128
    assert args["context_length"] == 262144
    assert args["mem_fraction_static"] == 0.9
    assert args["kv_cache_dtype"] == "bf16"
    assert args["dtype"] == "bfloat16"
    assert args["tool_call_parser"] == "kimi_k2"
    assert args["reasoning_parser"] == "kimi_k2"
    assert args["tp_size"] == 8
    assert args["host"] == "127.0.0.1"
    assert args["quantization"] is None
    assert args["enable_metrics"] is True
    assert engine_env(profile(name), ON_PATH) == DIE_AT_ONCE | {
        "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1",
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_PROTO": "LL,LL128,Simple",
    }


def test_eagle3_profile_pins_its_drafter(parsed: dict[str, dict[str, Any]]) -> None:
    args = parsed["k25-int4-sm120x8"]
    assert args["speculative_algorithm"] == "EAGLE3"
    assert args["speculative_draft_model_path"] == "/models/drafter"
    steps = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    assert [args[key] for key in steps] == [3, 1, 4]
    assert args["speculative_draft_model_quantization"] == "unquant"
    assert args["speculative_draft_attention_backend"] == "triton"
    assert args["attention_backend"] == "triton"
    assert args["speculative_adaptive"] is False


def test_arms_differ_only_in_what_they_compare(parsed: dict[str, dict[str, Any]]) -> None:
    def differences(name: str) -> set[str]:
        base = parsed["k25-int4-sm120x8"]
        return {key for key, value in parsed[name].items() if value != base[key]}

    assert differences("k25-int4-sm120x8-flashinfer") == {"attention_backend"}
    assert parsed["k25-int4-sm120x8-flashinfer"]["attention_backend"] == "flashinfer"
    assert all(key.startswith("speculative_") for key in differences("k25-int4-sm120x8-nospec"))
    assert all(key.startswith("speculative_") for key in differences("k25-int4-sm120x8-ngram"))
    assert parsed["k25-int4-sm120x8-nospec"]["speculative_algorithm"] is None
    ngram = parsed["k25-int4-sm120x8-ngram"]
    assert (ngram["speculative_algorithm"], ngram["speculative_ngram_max_bfs_breadth"]) == ("NGRAM", 1)


def test_lossless_by_default(parsed: dict[str, dict[str, Any]]) -> None:
    for name, args in parsed.items():
        assert args["speculative_accept_threshold_single"] == 1.0, name
        assert args["speculative_accept_threshold_acc"] == 1.0, name
        assert args["kv_cache_dtype"] in ("auto", "bf16"), name


def test_every_field_reaches_the_command() -> None:
    changed = profile(
        "cpu-tiny",
        "engine.random_seed=7",
        "engine.max_total_tokens=512",
        "engine.dtype=float32",
        "engine.trust_remote_code=false",
        "engine.extra_args=[--log-level, warning]",
        "speculation.adaptive=costs.json",
        "engine.env={A: b}",
    )
    argv = engine_argv(changed)
    for flag, value in (("--random-seed", "7"), ("--max-total-tokens", "512"), ("--dtype", "float32")):
        assert argv[argv.index(flag) + 1] == value
    assert "--trust-remote-code" not in argv
    assert "--speculative-adaptive" in argv
    assert argv[argv.index("--speculative-adaptive-config") + 1] == "costs.json"
    assert argv[argv.index("--cuda-graph-backend-decode") + 1] == "disabled", "a CPU has no graphs to capture"
    assert argv[-2:] == ["--log-level", "warning"]
    assert engine_env(changed, ON_PATH) == DIE_AT_ONCE | {"A": "b", SWITCHES_ENV: '{"adaptive_costs": true}'}
    assert engine_command(changed)[1:4] == ["-P", "-m", "k25serve.patches.launch"]


@pytest.mark.parametrize(
    "arg", ["--port", "--host=0.0.0.0", "--model-path", "--hos", "--devic", "--tp", "--model", "--config"]
)
def test_extra_args_cannot_undo_the_profile(arg: str) -> None:
    with pytest.raises(ConfigError, match="as the profile does; change the profile"):
        engine_argv(profile("cpu-tiny", f"engine.extra_args=['{arg}', '1']"))


def test_engine_finds_the_tools_beside_its_interpreter() -> None:
    folder = Path(sys.executable).parent
    assert engine_env(profile("cpu-tiny"), {"PATH": "/usr/bin"}) == DIE_AT_ONCE | {"PATH": f"{folder}:/usr/bin"}


def test_a_dead_child_ends_the_engine_at_once_unless_the_profile_says_otherwise() -> None:
    kept = profile("cpu-tiny", "engine.env={SGLANG_CUDA_COREDUMP_BEFORE_CRASH: '1'}")
    assert engine_env(kept, ON_PATH)["SGLANG_CUDA_COREDUMP_BEFORE_CRASH"] == "1"
