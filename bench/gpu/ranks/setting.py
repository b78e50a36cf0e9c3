"""How many ranks of what: checked before anything starts, and links that are used without NVLink multicast."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from k25serve.bench.comm.host import gpu_count
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.start import Start
from k25serve.server.config import load_profile

HEADS = 64  # of Kimi-K2.5
RANKS = (1, 2, 4, 8)
# A program that dies with multicast in use can take a host's GPUs out of service; PCIe boxes have none to lose.
NO_MULTICAST = MappingProxyType(
    {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
)
# SGLang turns FlashInfer's fusion on by itself on SM90 and SM100, never on SM120; its buffers heed none of the above.
NO_FUSION = "--enforce-disable-flashinfer-allreduce-fusion"


@dataclass(frozen=True)
class Setting:
    """`ranks` of `profile`'s device, cuda or cpu; `how` engines are started, and the folder of all files."""

    ranks: int
    profile: str
    device: str
    how: Start

    @property
    def on_cpu(self) -> bool:
        """Over gloo: the stage's own logic, at the size of the packaged model."""
        return self.device == "cpu"

    @property
    def heads(self) -> int:
        """Attention heads of a rank."""
        return HEADS // self.ranks

    @property
    def backend(self) -> str:
        """Of collectives."""
        return "gloo" if self.on_cpu else "nccl"

    @property
    def extra_args(self) -> tuple[str, ...]:
        """SGLang arguments of every engine: those given, else the profile's."""
        given = self.how.engine_args or load_profile(self.profile, self.how.overrides).engine.extra_args
        return (*given, *(() if self.on_cpu else (NO_FUSION,)))


def device_of(profile: str, overrides: tuple[str, ...]) -> str:
    """cuda or cpu. Raises ConfigError for a profile that is none."""
    return load_profile(profile, overrides, need_models=False).engine.device


def check_ranks(ranks: int, device: str, gpus: Callable[[], int] = gpu_count) -> None:
    """Raise ProofError, naming the remedy, where the heads can't be split or this host lacks the GPUs."""
    if ranks not in RANKS:
        listed = ", ".join(map(str, RANKS))
        raise ProofError(
            f"--tp {ranks}: Kimi-K2.5's {HEADS} heads are split over {listed} ranks here; give one of these"
        )
    if ranks == 1 or device == "cpu":
        return
    there = gpus()
    if ranks > there:
        fitting = max((one for one in RANKS if one <= there), default=0)
        told = {0: "no GPU (nvidia-smi lists none)", 1: "one GPU"}.get(there, f"{there} GPUs")
        remedy = f"give --tp {fitting}" if fitting > 1 else "run it on a host with more"
        raise ProofError(
            f"--tp {ranks}: a rank takes a GPU, this host has {told}; {remedy}, or --profile cpu-tiny (gloo)"
        )


def forbid_multicast() -> None:
    """For this process and all that it starts."""
    os.environ.update(NO_MULTICAST)
