"""What must hold before the engine is started: each check ends in one line that names the thing and the remedy."""

import errno
import os
import shutil
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint import CheckpointError, read_header
from k25serve.drafters.checkpoint.json_file import object_in
from k25serve.patches.adaptive.costs import CostError, read_costs
from k25serve.server.config import Profile
from k25serve.server.config.shown import shown
from k25serve.server.config.versions import CPU_SGLANG, SUPPORTED_SGLANG
from k25serve.server.engine.free_memory import available_ram
from k25serve.server.engine.free_memory import free_gpu_bytes as free_gpu_bytes  # for demo.py too
from k25serve.server.engine.holders import command_of, listener
from k25serve.server.errors import PreflightError

GIB = 2**30
# Main, scheduler and detokenizer of SGLang 0.5.23 on a CPU with a CUDA build of torch; each further rank: a scheduler.
CPU_PROCESSES_BYTES = 4 * GIB
CPU_RANK_BYTES = int(1.5 * GIB)
BYTES_PER_ELEMENT = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tiktoken.model")
PRIVILEGED_BELOW = 1024
INDEX = "model.safetensors.index.json"


def preflight(profile: Profile) -> None:
    """Run every check but that of ports and memory: see `release`. Raises PreflightError at the first that fails."""
    check_sglang(profile)
    check_model("target", profile.target)
    check_tokenizer("target", profile.target)
    if profile.speculation.drafter is not None:
        check_model("speculation.drafter", profile.speculation.drafter)
    if profile.speculation.adaptive is not None:
        check_costs(Path(profile.speculation.adaptive))
    check_compiler(profile)


def check_costs(path: Path) -> None:
    """Raise unless the file of `speculation.adaptive` holds costs of every number of steps that it allows."""
    try:
        read_costs(path)
    except CostError as error:
        raise PreflightError(f"speculation.adaptive {error}") from None


def check_port(field: str, host: str, port: int) -> None:
    """Raise unless a listener can be opened on host:port. field: of the port, such as `gateway.port`."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            holder = listener(port)
            reason += "" if holder is None else f" by pid {holder}, {command_of(holder)}"
            remedy = f"stop what listens there or pass --set {field}=PORT"
        elif error.errno == errno.EACCES and port < PRIVILEGED_BELOW:
            remedy = f"ports below {PRIVILEGED_BELOW} are privileged: pass --set {field}=PORT with a larger one"
        elif error.errno == errno.EACCES or field == "engine.port":  # whose host is loopback, always
            remedy = f"pass --set {field}=PORT with another one"
        else:
            raise _host_fault(field, host, reason) from None
        raise PreflightError(f"{field} {host}:{port} cannot be opened ({reason}); {remedy}") from None
    except (TypeError, ValueError) as error:  # UnicodeError is one: no name that DNS knows is of this form
        raise _host_fault(field, host, str(error)) from None


def _host_fault(field: str, host: str, reason: str) -> PreflightError:
    host_field = f"{field.rpartition('.')[0]}.host"
    return PreflightError(
        f"{host_field} {shown(host)} cannot be listened on ({reason}); "
        f"give an address of this machine, for example --set {host_field}=127.0.0.1"
    )


def check_sglang(profile: Profile) -> None:
    """Raise unless the installed SGLang is the version that the profile names, and runs on its device."""
    wanted = profile.engine.version
    supported = " or ".join(SUPPORTED_SGLANG)
    try:
        found = version("sglang")
    except PackageNotFoundError:
        raise PreflightError(
            f"SGLang is not installed here; install {supported}: uv pip install --no-deps -r deploy/locks/cuda.txt "
            "(cpu.txt without a GPU)"
        ) from None
    if found != wanted:
        raise PreflightError(
            f"SGLang {found} is installed, profile {profile.name} asks for {wanted} (supported: {supported}); "
            f"install sglang=={wanted}, or pass --set engine.version={found} if it is supported"
        )
    if profile.engine.device == "cpu" and wanted not in CPU_SGLANG:
        raise PreflightError(
            f"SGLang {wanted} runs on GPUs only here; the CPU needs {' or '.join(CPU_SGLANG)}: "
            "install it, or set engine.device=cuda"
        )


def check_model(field: str, folder: str) -> None:
    """Raise unless `folder` holds a readable config.json and whole safetensors, all that its index names."""
    path = Path(folder)
    try:
        if not path.is_dir():
            raise PreflightError(
                f"{field} {folder}: no such folder; download the model there, or pass --set {field}=FOLDER"
            )
        config = path / "config.json"
        if not config.is_file():
            raise PreflightError(f"{field} {folder}: has no config.json; point it at a Hugging Face model folder")
        if not read_object(field, config).get("architectures"):
            raise PreflightError(f"{field} {config}: has no 'architectures'; point it at a Hugging Face model folder")
        _check_shards(field, path)
    except OSError as error:
        raise PreflightError(
            f"{field} {error.filename or folder}: cannot be read ({error.strerror}); mend its permissions, "
            f"or pass --set {field}=FOLDER"
        ) from None


def _check_shards(field: str, folder: Path) -> None:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise PreflightError(f"{field} {folder}: holds no *.safetensors; the download is not complete")
    index = folder / INDEX
    if index.is_file():
        weight_map = read_object(field, index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise PreflightError(f"{field} {index}: has no weight_map of names to files; download it again")
        there = {file.name for file in files}
        missing = sorted({str(shard) for shard in weight_map.values()} - there)
        if missing:
            raise PreflightError(
                f"{field} {folder}: {len(missing)} shards of {INDEX} are missing, the first is {shown(missing[0])}; "
                "the download is not complete"
            )
    for file in files:
        try:
            read_header(file)
        except CheckpointError as error:
            raise PreflightError(f"{field} {error}") from None


def read_object(field: str, path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises PreflightError where it holds none, OSError where it can't be read."""
    raw = path.read_bytes()
    try:
        return object_in(raw, f"{field} {path}")
    except CheckpointError as error:
        raise PreflightError(str(error)) from None


def check_tokenizer(field: str, folder: str) -> None:
    """Raise unless `folder` holds a tokenizer's file."""
    if not any((Path(folder) / name).is_file() for name in TOKENIZER_FILES):
        raise PreflightError(
            f"{field} {folder}: has no tokenizer ({', '.join(TOKENIZER_FILES)}); the download is not complete"
        )


def check_compiler(profile: Profile) -> None:
    """Raise where n-gram speculation cannot build its index: SGLang compiles it with a C++ compiler at start."""
    compiler = os.environ.get("CXX", "g++")
    if profile.speculation.algorithm == "ngram" and shutil.which(compiler) is None:
        raise PreflightError(
            f"speculation.algorithm ngram: SGLang builds its index with {compiler}, which is not on PATH; "
            "install it (Debian: apt-get install g++), or set CXX"
        )


def weight_bytes(folder: str) -> int:
    """Size of the safetensors files in `folder`."""
    try:
        return sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))
    except OSError as error:
        raise PreflightError(f"{error.filename}: cannot be read ({error.strerror}); download it again") from None


def check_memory(profile: Profile) -> None:
    """Raise when the weights cannot fit: in the RAM that is free (cpu), in each GPU's free memory (cuda)."""
    weights = weight_bytes(profile.target)
    if profile.speculation.drafter is not None:
        weights += weight_bytes(profile.speculation.drafter)
    if profile.engine.device == "cpu":
        _check_ram(profile, weights)
    else:
        _check_gpus(profile, weights)


def _check_ram(profile: Profile, weights: int) -> None:
    tp = profile.engine.tp
    # The files hold 2 bytes an element; the engine holds them in its dtype.
    needed = CPU_PROCESSES_BYTES + (tp - 1) * CPU_RANK_BYTES + weights * BYTES_PER_ELEMENT[profile.engine.dtype] // 2
    free = available_ram()
    if free < needed:
        raise PreflightError(
            f"no room in memory: target {profile.target} needs about {needed / GIB:.1f} GiB at tp {tp}, "
            f"{free / GIB:.1f} GiB are available; free some, or lower engine.tp"
        )


def _check_gpus(profile: Profile, weights: int) -> None:
    engine = profile.engine
    free = free_gpu_bytes()
    if not free and shutil.which("nvidia-smi") is None:
        raise PreflightError(
            f"engine.device cuda, tp {engine.tp}: nvidia-smi, which lists the GPUs, is not on PATH; "
            "install NVIDIA's driver, or use a cpu profile"
        )
    if len(free) < engine.tp:
        raise PreflightError(
            f"engine.tp {engine.tp} needs {engine.tp} GPUs, nvidia-smi lists {len(free)}; "
            f"lower engine.tp, or use a cpu profile"
        )
    share = weights // engine.tp
    for index, left in enumerate(free[: engine.tp]):
        if left is not None and left < share:
            raise PreflightError(
                f"no room in memory: GPU {index} has {left / GIB:.1f} GiB free, its share of the weights is "
                f"{share / GIB:.1f} GiB; end what holds it (nvidia-smi lists it), or raise engine.tp"
            )
