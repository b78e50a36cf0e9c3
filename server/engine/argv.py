"""Profile -> SGLang's argv and environment. Nothing is hidden: `--dry-run` prints both."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from k25serve.patches.manifest.switches import SWITCHES_ENV
from k25serve.server.config import Engine, Profile, Speculation
from k25serve.server.errors import ConfigError

ALGORITHMS = {"eagle3": "EAGLE3", "ngram": "NGRAM"}
LAUNCH_MODULE = "k25serve.patches.launch"
# Other spellings of what the profile sets, and a file that could set all of it.
ALIASES = ("--tp", "--tensor-parallel-size", "--model", "--speculative-draft-model", "--config")
# When a child dies SGLang would first wait for a debugger and 60 s for core dumps, its port open, its clients waiting.
DIE_AT_ONCE = {"SGLANG_PYSPY_DUMP_BEFORE_CRASH": "0", "SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0"}


def engine_command(profile: Profile) -> list[str]:
    """The whole command line that starts the engine of `profile`."""
    return [sys.executable, "-P", "-m", LAUNCH_MODULE, *engine_argv(profile)]


def engine_env(profile: Profile, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What is added to the environment; a variable that is set there already is replaced.

    PATH gains the interpreter's folder where it lacks it: SGLang compiles kernels with the `ninja` installed there.
    """
    added = DIE_AT_ONCE | profile.engine.env
    if profile.switches or SWITCHES_ENV in environ:
        added[SWITCHES_ENV] = json.dumps(profile.switches)
    folder, path = str(Path(sys.executable).parent), environ.get("PATH", os.defpath)
    if folder not in path.split(os.pathsep):
        added.setdefault("PATH", f"{folder}{os.pathsep}{path}")
    return added


def engine_argv(profile: Profile) -> list[str]:
    """SGLang's arguments. Raises ConfigError where `engine.extra_args` repeats one that the profile sets."""
    engine = profile.engine
    flags: dict[str, str | tuple[str, ...] | bool | None] = {
        "--model-path": profile.target,
        "--served-model-name": profile.served_model_name,
        "--host": "127.0.0.1",
        "--port": str(engine.port),
        "--device": engine.device,
        "--tp-size": str(engine.tp),
        "--dtype": engine.dtype,
        "--context-length": str(profile.context_length),
        "--kv-cache-dtype": engine.kv_cache_dtype,
        "--attention-backend": engine.attention_backend,
        "--mem-fraction-static": str(engine.mem_fraction_static),
        "--max-total-tokens": _text(engine.max_total_tokens),
        "--max-running-requests": str(engine.max_running_requests),
        "--cuda-graph-bs-decode": tuple(str(size) for size in engine.cuda_graph_batch_sizes) or None,
        "--tool-call-parser": engine.tool_call_parser,
        "--reasoning-parser": engine.reasoning_parser,
        "--trust-remote-code": engine.trust_remote_code,
        "--random-seed": _text(engine.random_seed),
        "--enable-metrics": True,
        "--enable-cache-report": True,
        **_speculation_flags(profile.speculation, engine),
    }
    for given in engine.extra_args:
        _check_extra(given, (*flags, *ALIASES))
    argv: list[str] = []
    for flag, value in flags.items():
        if value is None or value is False:
            continue
        argv.append(flag)
        if value is not True:
            argv.extend((value,) if isinstance(value, str) else value)
    return [*argv, *engine.extra_args]


def _check_extra(given: str, taken: tuple[str, ...]) -> None:
    name = given.partition("=")[0]
    # argparse takes any prefix of a flag for the flag.
    flag = next((flag for flag in taken if name.startswith("--") and len(name) > 2 and flag.startswith(name)), None)
    if flag is not None:
        raise ConfigError(f"engine.extra_args has {given}, which sets {flag} as the profile does; change the profile")


def _speculation_flags(speculation: Speculation, engine: Engine) -> dict[str, str | bool | None]:
    if speculation.algorithm == "none":
        return {}
    flags: dict[str, str | bool | None] = {
        "--speculative-algorithm": ALGORITHMS[speculation.algorithm],
        "--speculative-num-draft-tokens": _text(speculation.num_draft_tokens),
    }
    if speculation.algorithm == "ngram":
        # SGLang takes eagle_topk from the breadth: 1 is a chain.
        return {**flags, "--speculative-ngram-max-bfs-breadth": str(speculation.topk)}
    return {
        **flags,
        "--speculative-draft-model-path": speculation.drafter,
        "--speculative-num-steps": _text(speculation.num_steps),
        "--speculative-eagle-topk": str(speculation.topk),
        "--speculative-draft-attention-backend": speculation.draft_attention_backend,
        # Unset, the drafter would inherit the target's quantization and fail to load.
        "--speculative-draft-model-quantization": "unquant",
        "--speculative-adaptive": speculation.adaptive is not None,
        "--speculative-adaptive-config": speculation.adaptive,
        # SGLang captures graphs for every number of steps, and finds out too late that a CPU has none.
        "--cuda-graph-backend-decode": "disabled" if speculation.adaptive and engine.device == "cpu" else None,
    }


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
