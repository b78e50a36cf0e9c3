"""`k25serve prove` and `ab` with a simulated engine where a profile would be booted: python stand_in.py prove ..."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer

from k25serve.bench.ab.commands import ab_command
from k25serve.bench.prove.commands import prove_command
from k25serve.drafters.gate.host import Host
from k25serve.server import cli
from k25serve.server.errors import EngineFailed
from k25serve.server.host import start_record
from k25serve.server.signals import finished, on_stop


@asynccontextmanager
async def boot(profile: str) -> AsyncIterator[str]:
    """Announces the boot, for tests that end what a killed campaign left. Profile cpu-tiny-ngram fails to start."""
    if profile == "cpu-tiny-ngram":
        raise EngineFailed("engine: ended with exit code 1; see its log")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "k25serve.bench.engine_sim", "--port", "0", "--step-s", "0.001"),
        *("--prefill-s", "0.002", "--options", '{"cached_tokens": 0}'),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # or a killed campaign's pipe would not end before it does
    )
    assert process.stdout is not None
    print(f"booted {profile} as {process.pid}", file=sys.stderr, flush=True)
    try:
        yield (await process.stdout.readline()).decode().split()[-1]
    finally:
        # As running_engine does.
        process.terminate()
        with on_stop(process.kill):
            await finished(asyncio.create_task(process.wait()))


app = typer.Typer(pretty_exceptions_enable=False)
app.command("prove")(prove_command)
app.command("ab")(ab_command)


@app.callback()
def _root(context: typer.Context) -> None:
    context.obj = Host(boot, start_record)


if __name__ == "__main__":
    cli.app = app
    cli.main()
