"""systemd units started and stopped, and left as they were found."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence

from k25serve.server.errors import UserError

SHOWN = 300
STOP_S = 1800.0  # a unit's own TimeoutStopSec comes first


class Systemctl:
    """Runs systemctl. command: its words, e.g. ("sudo", "-n", "systemctl")."""

    def __init__(self, command: Sequence[str] = ("systemctl",)) -> None:
        self._command = tuple(command)

    async def is_active(self, unit: str) -> bool:
        """Raises UserError where there is no such unit."""
        code, told = await self._run("show", "--property=LoadState,ActiveState", unit)
        facts = dict(line.partition("=")[::2] for line in told.splitlines())
        if code or facts.get("LoadState") != "loaded":
            raise UserError(f"unit {unit}: {facts.get('LoadState') or told or 'unknown'}; name an installed unit")
        return facts.get("ActiveState") in ("active", "activating", "reloading")

    async def start(self, unit: str) -> None:
        """Without waiting for its readiness: a model loads for an hour, which is followed over HTTP."""
        await self._do("start", "--no-block", unit)

    async def stop(self, unit: str) -> None:
        """Until it has stopped: the next engine needs its memory."""
        await self._do("stop", unit)

    async def _do(self, *words: str) -> None:
        code, told = await self._run(*words)
        if code:
            name = " ".join((*self._command, *words))
            raise UserError(
                f"{name}: failed ({told}); see journalctl -u {words[-1]}, or pass --systemctl 'sudo -n systemctl'"
            )

    async def _run(self, *words: str) -> tuple[int, str]:
        # To a file: a pipe ends only when everything that inherited it has, and uvloop lets grandchildren inherit it.
        with tempfile.TemporaryFile() as out:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    *words,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=asyncio.subprocess.STDOUT,
                )
            except OSError as error:
                raise UserError(f"--systemctl {' '.join(self._command)}: cannot be run ({error})") from None
            try:
                code = await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()
                return 1, f"no answer in {STOP_S:g} s"
            out.seek(0)
            return code, out.read().decode(errors="replace").strip()[:SHOWN]


async def states(units: Sequence[str], systemctl: Systemctl) -> dict[str, bool]:
    """Which units run now."""
    return {unit: await systemctl.is_active(unit) for unit in units}


@contextlib.asynccontextmanager
async def restored(found: Mapping[str, bool], systemctl: Systemctl) -> AsyncIterator[None]:
    """On the way out, whatever happens, every unit is as it was found. Stops come first: one box, one engine."""
    try:
        yield
    finally:
        await _despite_cancelling(asyncio.create_task(_restore(found, systemctl)))


async def _despite_cancelling(task: asyncio.Task[None]) -> None:
    """Waits for the task's end; a second Ctrl-C or SIGTERM takes effect after it."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def _restore(found: Mapping[str, bool], systemctl: Systemctl) -> None:
    for unit, was_active in sorted(found.items(), key=lambda item: item[1]):
        if was_active == await systemctl.is_active(unit):
            continue
        await (systemctl.start(unit) if was_active else systemctl.stop(unit))
