"""What a load will ask of RAM and page cache, told before it starts; and refused where it cannot end well."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from k25serve.server.config import Profile
from k25serve.server.engine.free_memory import available_ram
from k25serve.server.engine.preflight import GIB, weight_bytes
from k25serve.server.errors import ConfigError, PreflightError

# SGLang 0.5.23, model_loader/loader.py: threads of a rank, and the shards that it then holds at a time.
THREADS = 8
SHARDS_BESIDE_THREADS = 2
LOADER = "--model-loader-extra-config"
NO_MMAP = "--weight-loader-disable-mmap"


@dataclass(frozen=True)
class LoadPlan:
    """Bytes of the weights, target and drafter; of the shards that a rank holds at a time; of RAM."""

    target: int
    drafter: int
    threads: int
    ranks: int
    window: int
    mapped: bool
    ram: int

    @property
    def peak(self) -> int:
        """RAM that the kernel cannot take back while the weights load: none of the mapped shards is such."""
        return 0 if self.mapped else self.ranks * self.window

    def __str__(self) -> str:
        drafter = f" and {self.drafter / 1e9:,.1f} GB of the drafter" if self.drafter else ""
        readers = f"{self.ranks} rank{'' if self.ranks == 1 else 's'} with {self.threads} threads each"
        text = f"load: {self.target / 1e9:,.1f} GB{drafter}, read by {readers}"
        if not self.mapped:
            return f"{text} into RAM: up to {self.peak / GIB:,.1f} GiB of {self.ram / GIB:,.0f} GiB at a time"
        if self.target + self.drafter <= self.ram:
            return f"{text} through the page cache, which holds all of it ({self.ram / GIB:,.0f} GiB of RAM)"
        return (
            f"{text} through the page cache. RAM ({self.ram / GIB:,.0f} GiB) holds less than that: each byte is read "
            f"once while the ranks stay within {max(0, self.ram - self.window) / 1e9:,.0f} GB of each other, and the "
            "next start reads all of it again"
        )


def plan_load(profile: Profile) -> LoadPlan:
    """Read sizes and flags. Raises PreflightError where loading without mmap would need more RAM than there is."""
    folders = [profile.target, *([profile.speculation.drafter] if profile.speculation.drafter else [])]
    threads, extra = _threads(profile.engine.extra_args), profile.engine.extra_args
    shards = sorted(file.stat().st_size for folder in folders for file in Path(folder).glob("*.safetensors"))
    plan = LoadPlan(
        target=weight_bytes(profile.target),
        drafter=sum(weight_bytes(folder) for folder in folders[1:]),
        threads=threads,
        ranks=profile.engine.tp,
        window=sum(shards[-(threads + SHARDS_BESIDE_THREADS) :]),
        mapped=NO_MMAP not in extra,
        ram=available_ram(),
    )
    if plan.peak > plan.ram:
        raise PreflightError(
            f"engine.extra_args {NO_MMAP}: {plan.ranks} ranks would hold {plan.window / GIB:,.1f} GiB of shards each, "
            f"{plan.ram / GIB:,.1f} GiB of RAM are available; remove it, or lower num_threads in {LOADER}"
        )
    return plan


def _threads(extra: Sequence[str]) -> int:
    """Loader threads of a rank, from `--model-loader-extra-config`, JSON, as SGLang reads it."""
    given = None
    for index, word in enumerate(extra):
        name, equals, value = word.partition("=")
        if name == LOADER:
            given = value if equals else next(iter(extra[index + 1 :]), "")
    if given is None:
        return THREADS
    try:
        config = json.loads(given)
        threads = int(config.get("num_threads", THREADS)) if config.get("enable_multithread_load", True) else 1
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(f"engine.extra_args {LOADER} {given!r}: holds no JSON object of num_threads") from None
    if threads < 1:
        raise ConfigError(f"engine.extra_args {LOADER}: num_threads is {threads}; give 1 or more")
    return threads
