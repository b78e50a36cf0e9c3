"""systemd units started and stopped, and left as they were found."""

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from k25serve.server.errors import UserError
from k25serve.server.signals import finished

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
        # To its end even where it is cancelled: a start that systemd hears of after a stop would undo it.
        await finished(asyncio.create_task(self._do("start", "--no-block", unit)))

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
                async with asyncio.timeout(STOP_S):
                    code = await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
                return 1, f"no answer in {STOP_S:g} s"
            if code == -signal.SIGINT:  # a terminal's Ctrl-C reaches it too; whether to go on is not for it to say
                return await self._run(*words)
            out.seek(0)
            return code, out.read().decode(errors="replace").strip()[:SHOWN]


async def states(units: Sequence[str], systemctl: Systemctl) -> dict[str, bool]:
    """Which units run now."""
    return {unit: await systemctl.is_active(unit) for unit in units}


@contextlib.asynccontextmanager
async def restored(
    found: Mapping[str, bool], systemctl: Systemctl, back: Callable[[], object] = lambda: None
) -> AsyncIterator[None]:
    """On the way out, whatever happens, every unit is as it was found. Stops come first: one box, one engine.

    back: called once they are. Raises UserError where a unit can't be put back, after all others were.
    """
    try:
        yield
    finally:
        await finished(asyncio.create_task(_restore(found, systemctl, back)))


async def _restore(found: Mapping[str, bool], systemctl: Systemctl, back: Callable[[], object]) -> None:
    faults = []
    for unit, was_active in sorted(found.items(), key=lambda item: item[1]):
        try:
            if was_active != await systemctl.is_active(unit):
                await (systemctl.start(unit) if was_active else systemctl.stop(unit))
        except UserError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]
    back()
