"""A start waits for what an engine before it still holds, then says who holds it. It ends no foreign process."""

import os
import time
from collections.abc import Callable

from k25serve.server.config import Profile
from k25serve.server.engine.gpu_memory import Gpu, gpu_holders, gpus, used_gpus
from k25serve.server.engine.holders import listened
from k25serve.server.engine.preflight import GIB, check_port
from k25serve.server.errors import PreflightError, StillHeld

POLL_S = 0.5


def wait_released(profile: Profile, tell: Callable[[str], None]) -> None:
    """Return once the engine's port and its GPUs' memory are free; say through `tell` what is waited for.

    Raises PreflightError at once where somebody listens on the port, and StillHeld after `engine.release_timeout_s`.
    """
    deadline = time.monotonic() + profile.engine.release_timeout_s
    told = False
    while held := _held(profile):
        if time.monotonic() > deadline:
            raise StillHeld(f"{held}; waited engine.release_timeout_s = {profile.engine.release_timeout_s:g} s for it")
        if not told:
            told = True
            tell(f"engine: waiting up to {profile.engine.release_timeout_s:g} s: {held}")
        time.sleep(POLL_S)


def _held(profile: Profile) -> str | None:
    try:
        check_port("engine.port", "127.0.0.1", profile.engine.port)
    except PreflightError as error:
        if listened(profile.engine.port):
            raise  # a server, not the rest of one
        return str(error)
    return _held_memory(profile) if profile.engine.device == "cuda" else None


def _held_memory(profile: Profile) -> str | None:
    """The fullest GPU, and who holds its memory; None where each has what the profile takes of it."""
    engine = profile.engine
    visible = {**os.environ, **engine.env}.get("CUDA_VISIBLE_DEVICES")
    short = [gpu for gpu in used_gpus(gpus(), visible, engine.tp) if gpu.free < _wanted(gpu, profile)]
    if not short:
        return None
    worst = min(short, key=lambda gpu: gpu.free)
    holders = [str(holder) for holder in gpu_holders() if holder.uuid == worst.uuid]
    who = ", ".join(holders) or "a process that cannot be seen from here (look outside of this container)"
    return (
        f"GPU {worst.index} has {worst.free / GIB:.1f} GiB free, engine.mem_fraction_static "
        f"{engine.mem_fraction_static:g} takes {_wanted(worst, profile) / GIB:.1f}: held by {who}; "
        "stop it or lower engine.mem_fraction_static"
    )


def _wanted(gpu: Gpu, profile: Profile) -> int:
    return int(gpu.total * profile.engine.mem_fraction_static)
