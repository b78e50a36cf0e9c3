"""Profile -> SGLang's argv and environment. Nothing is hidden: `--dry-run` prints both."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from k25serve.server.config import Engine, Profile, Speculation
from k25serve.server.errors import ConfigError

ALGORITHMS = {"eagle3": "EAGLE3", "ngram": "NGRAM"}
LAUNCH_MODULE = "k25serve.patches.launch"


def engine_command(profile: Profile) -> list[str]:
    """The whole command line that starts the engine of `profile`."""
    return [sys.executable, "-P", "-m", LAUNCH_MODULE, *engine_argv(profile)]


def engine_env(profile: Profile, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What is added to the environment; a variable that is set there already is replaced.

    PATH gains the interpreter's folder where it lacks it: SGLang compiles kernels with the `ninja` installed there.
    """
    added = dict(profile.engine.env)
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
    repeated = sorted(flags.keys() & {arg.partition("=")[0] for arg in engine.extra_args})
    if repeated:
        raise ConfigError(f"engine.extra_args repeats {repeated[0]}, which the profile sets; change the profile's key")
    argv: list[str] = []
    for flag, value in flags.items():
        if value is None or value is False:
            continue
        argv.append(flag)
        if value is not True:
            argv.extend((value,) if isinstance(value, str) else value)
    return [*argv, *engine.extra_args]


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
        "--speculative-adaptive": speculation.adaptive,
    }


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
