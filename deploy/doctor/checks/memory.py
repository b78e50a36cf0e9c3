"""GPU memory before it is taken: weights, drafter, graphs, and the KV tokens that each request would have."""

from pathlib import Path
from typing import Any

from k25serve.deploy.doctor.finding import Finding, ok, refused, skip
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile
from k25serve.server.config.shown import shown
from k25serve.server.engine.free_memory import available_ram
from k25serve.server.engine.gpu_memory import Gpu, gpus, used_gpus
from k25serve.server.engine.preflight import GIB, read_object, weight_bytes
from k25serve.server.errors import PreflightError, UserError

KV_BYTES = {"auto": 2, "bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}
GRAPH_BYTES_PER_TOKEN = 6 * 2**20  # of the largest captured batch: 0.15 GiB for 16 x 4 tokens on an H200, and room
CACHE_SIZES = ("num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim")
CONCURRENCY = (1, 4, 16, 64, 128)


def check(profile: Profile, machine: Machine) -> list[Finding]:
    """RAM for a profile of the CPU; otherwise every GPU that the ranks will use."""
    try:
        weights = weight_bytes(profile.target)
        drafter = weight_bytes(profile.speculation.drafter) if profile.speculation.drafter else 0
    except UserError as error:
        return [skip("memory", str(error))]
    if weights == 0:
        return [skip("memory", "no weights to size")]
    if profile.engine.device == "cpu":
        return [ok("memory", f"weights {weights / GIB:.2f} GiB; {available_ram() / GIB:.1f} GiB of RAM are available")]
    used = used_gpus(gpus(), machine.environ.get("CUDA_VISIBLE_DEVICES"), profile.engine.tp)
    if len(used) < profile.engine.tp:
        return [skip("memory", f"{len(used)} GPUs, engine.tp is {profile.engine.tp}")]
    try:
        text = text_config(Path(profile.target))
    except UserError as error:
        return [refused("memory", error)]
    except OSError as error:
        return [skip("memory", f"{error.filename}: {error.strerror}")]
    return [judge(profile, weights, drafter, text, min(used, key=lambda gpu: gpu.free))]


def text_config(target: Path) -> dict[str, Any]:
    """The language model's part of config.json, without what is null. Raises PreflightError where it can't be so."""
    path = target / "config.json"
    config = read_object("target", path)
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise PreflightError(f"target {path}: text_config is {shown(text)}, not an object; download it again")
    text = {name: value for name, value in text.items() if value is not None}
    for name in CACHE_SIZES:
        if name in text and (type(text[name]) is not int or text[name] < 1):
            raise PreflightError(f"target {path}: {name} is {shown(text[name])}, not a size; download it again")
    return text


def kv_bytes_per_token(profile: Profile, text: dict[str, Any]) -> int:
    """Of one rank. A latent (MLA) cache is whole on every rank: (kv_lora_rank + qk_rope_head_dim) of each layer."""
    return int(
        text["num_hidden_layers"]
        * (text["kv_lora_rank"] + text["qk_rope_head_dim"])
        * KV_BYTES[profile.engine.kv_cache_dtype]
    )


def judge(profile: Profile, weights: int, drafter: int, text: dict[str, Any], gpu: Gpu) -> Finding:
    """The fullest GPU of those that the ranks use."""
    engine = profile.engine
    share = (weights + drafter) // engine.tp
    tokens_a_step = max(engine.cuda_graph_batch_sizes or (engine.max_running_requests,)) * (
        profile.speculation.num_draft_tokens or 1
    )
    graphs = tokens_a_step * GRAPH_BYTES_PER_TOKEN
    allowed = int(gpu.total * engine.mem_fraction_static)
    evidence = (
        f"GPU {gpu.index}: {gpu.free / GIB:.1f} of {gpu.total / GIB:.1f} GiB free; weights {share / GIB:.1f} GiB a "
        f"rank ({drafter / engine.tp / GIB:.1f} of it the drafter), graphs about {graphs / GIB:.1f}"
    )
    if gpu.free < share + graphs:
        return Finding("memory", "fail", evidence, "end what holds the GPU (nvidia-smi lists it), or raise engine.tp")
    cache = min(allowed, gpu.free - graphs) - share
    if not set(CACHE_SIZES) <= text.keys():
        return ok("memory", f"{evidence}; {cache / GIB:.1f} GiB stay for the KV cache")
    tokens = max(0, cache // kv_bytes_per_token(profile, text))
    if engine.max_total_tokens is not None:
        tokens = min(tokens, engine.max_total_tokens)
    shares = ", ".join(f"{tokens // n:,} at {n}" for n in CONCURRENCY if n <= engine.max_running_requests)
    evidence += f"; KV cache {tokens:,} tokens, a request has {shares}"
    if tokens < profile.context_length:
        remedy = "lower context_length, raise engine.mem_fraction_static, or use more GPUs"
        return Finding("memory", "fail", f"{evidence}; context_length is {profile.context_length:,}", remedy)
    return ok("memory", evidence)
