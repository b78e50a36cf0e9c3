"""One engine's life: checked, started, ready, stopped."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console

from k25serve.server.config import Profile
from k25serve.server.engine.argv import engine_command, engine_env
from k25serve.server.engine.capacity import read_capacity
from k25serve.server.engine.drafter import check_profile_drafter
from k25serve.server.engine.load_plan import plan_load
from k25serve.server.engine.load_record import last_seconds, record_load
from k25serve.server.engine.preflight import check_memory, preflight
from k25serve.server.engine.process import EngineProcess
from k25serve.server.engine.readiness import engine_url, wait_ready
from k25serve.server.engine.release import wait_released
from k25serve.server.engine.report import LoadReport
from k25serve.server.engine.state import engine_state
from k25serve.server.signals import finished, on_stop


@asynccontextmanager
async def running_engine(profile: Profile, console: Console) -> AsyncIterator[EngineProcess]:
    """Check and start the engine; on the way out, stop it. It is not ready yet inside: see `announce_ready`."""
    with engine_state(profile) as state:
        preflight(profile)
        if told := check_profile_drafter(profile):
            console.print(told, markup=False, highlight=False)
        wait_released(profile, lambda text: console.print(text, markup=False, highlight=False))
        check_memory(profile)
        console.print(str(plan_load(profile)), markup=False, highlight=False)
        stop_s = profile.engine.stop_timeout_s
        engine = await EngineProcess.start(
            engine_command(profile), engine_env(profile), state.log, stop_s, kept=(state.lock,)
        )
        try:
            console.print(
                f"engine: {profile.name} starts on 127.0.0.1:{profile.engine.port}, log {state.log}", highlight=False
            )
            if profile.engine.device == "cpu":
                console.print("engine: on the CPU through a torch reference: for demos and tests, not for serving")
            yield engine
        finally:
            # The engine stops even where nothing can be printed any more: a closed terminal, a broken pipe.
            stopping = asyncio.create_task(engine.stop())
            with contextlib.suppress(OSError):
                if engine.exit_code is None:
                    console.print(f"engine: stopping, up to {stop_s:g} s; Ctrl-C ends it at once", highlight=False)
            with on_stop(engine.hurry):
                await finished(stopping)


async def announce_ready(engine: EngineProcess, profile: Profile, console: Console) -> None:
    """Wait until the engine has generated a token, showing progress; then tell the KV capacity."""
    with LoadReport(console, last_seconds(engine.log)) as report:
        seconds = await wait_ready(engine, profile, report)
    record_load(profile, engine.log, seconds)
    capacity = await read_capacity(engine_url(profile))
    console.print(f"engine: ready after {seconds:.0f} s. {capacity}", highlight=False)
