"""What other folders' commands are given: engines started from profiles, result files with provenance."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from k25serve.server.config import load_profile


@asynccontextmanager
async def boot_engine(profile_name: str) -> AsyncIterator[str]:
    """Start the engine of a profile, wait until it is ready, yield its URL, stop it."""
    from k25serve.server.engine.readiness import engine_url
    from k25serve.server.engine.supervise import announce_ready, running_engine

    profile, console = load_profile(profile_name), Console(stderr=True, soft_wrap=True)
    async with running_engine(profile, console) as engine:
        await announce_ready(engine, profile, console)
        yield engine_url(profile)


def start_record(kind: str) -> Callable[[dict[str, Any], Path], Path]:
    """Note the start of a measurement; call what this returns with its data and the folder for result files."""
    from k25serve.bench.provenance import Recorder, write

    recorder = Recorder(kind)
    return lambda data, folder: write(recorder.finish(data), folder)
