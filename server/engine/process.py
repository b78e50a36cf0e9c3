"""The engine as a process: started under its guardian, watched, stopped."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from k25serve.server.config.shown import one_line
from k25serve.server.engine.leftovers import reap
from k25serve.server.errors import PreflightError

DISK_FULL_BYTES = 2**20
OWN_WORD = "k25serve: error: "  # of patches/: why a process of the engine stops itself; SGLang's last words follow it
GUARDIAN_MARGIN_S = 15.0  # what the guardian itself may need after its stop limit, to kill and reap


class EngineProcess:
    """A running engine. Its output goes to `log`; nothing of it outlives this process, whatever ends it."""

    def __init__(self, guardian: asyncio.subprocess.Process, lifeline: int, log: Path, stop_seconds: float) -> None:
        self._guardian = guardian
        self._lifeline = lifeline
        self._stop_seconds = stop_seconds
        self.log = log

    @classmethod
    async def start(
        cls, command: Sequence[str], env: Mapping[str, str], log: Path, stop_seconds: float, kept: Sequence[int] = ()
    ) -> Self:
        """Start `command` with `env` added to the environment, its output in `log`, an existing folder's new file.

        kept: descriptors that the guardian, not the engine, holds until its end: the lock of the engine's port.
        Raises PreflightError where this process may not: too few file descriptors or processes are allowed, say.
        """
        try:
            read_end, write_end = os.pipe()
        except OSError as error:
            raise _not_started(error) from None
        try:
            with log.open("wb") as output:
                guardian = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "k25serve.server.engine.guardian"),
                    *(str(read_end), str(stop_seconds), *command),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    env={**os.environ, **env},
                    pass_fds=(read_end, *kept),
                    start_new_session=True,  # a terminal's Ctrl-C reaches the launcher only, which then stops in order
                )
        except OSError as error:
            os.close(write_end)
            raise _not_started(error) from None
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        return cls(guardian, write_end, log, stop_seconds)

    @property
    def pid(self) -> int:
        """Pid of the guardian, the root of the engine's process tree."""
        return self._guardian.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._guardian.returncode

    async def wait(self) -> int:
        """Wait for the end; return the engine's exit code."""
        return await self._guardian.wait()

    async def stop(self) -> int:
        """SIGTERM, a bounded drain, then SIGKILL for whatever is left; return the exit code."""
        self.hurry()
        try:
            async with asyncio.timeout(self._stop_seconds + GUARDIAN_MARGIN_S):
                code = await self._guardian.wait()
        except TimeoutError:
            self._guardian.kill()
            code = await self._guardian.wait()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        # A guardian that was itself killed could not: then the kernel ended the engine's main process, no other one.
        await asyncio.to_thread(reap, [self.log])
        return code

    def hurry(self) -> None:
        """Send SIGTERM: the first begins the drain, a second ends it."""
        if self._guardian.returncode is None:
            self._guardian.send_signal(signal.SIGTERM)

    def obituary(self, code: int) -> str:
        """What to say of an engine that ended with `code`: where its log is, and the end of it."""
        tail = "\n".join(f"    {line}" for line in self.log_tail())
        how = f"exit code {code}" if code >= 0 else f"its guardian, killed by signal {-code}"
        full = "; no space is left on that disk" if shutil.disk_usage(self.log.parent).free < DISK_FULL_BYTES else ""
        cause = _cause(self.log_tail(1000))
        return f"the engine ended with {how}{cause}; its log is {self.log}{full}, its last lines:\n{tail}"

    def log_tail(self, lines: int = 15) -> list[str]:
        """The last lines of the engine's output."""
        with self.log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 16384))
            return file.read().decode(errors="replace").splitlines()[-lines:]


def _cause(lines: Sequence[str]) -> str:
    """The line that tells it: the start module's own last word, else the last one of an error; empty without one."""
    own = [line for line in lines if line.startswith(OWN_WORD)]
    others = [
        line.strip() for line in lines[-15:] if re.search(r"error|exception|crash|fatal|abort", line, re.IGNORECASE)
    ]
    told = next(iter((own or others)[-1:]), "").removeprefix(OWN_WORD)
    return f": {one_line(told)}" if told else ""


def _not_started(error: OSError) -> PreflightError:
    return PreflightError(f"the engine cannot be started: {error.strerror}; raise the limits (ulimit -n, ulimit -u)")
