"""systemctl, as calls."""

import shutil
import subprocess
from pathlib import Path

from k25serve.server.errors import UserError


class SystemctlFailed(UserError):
    """systemd refused, or a unit did not start."""

    exit_code = 1


class Systemctl:
    """Asks systemd through `program`; every call waits for the job unless it says otherwise."""

    def __init__(self, program: str | None = None) -> None:
        found = program or shutil.which("systemctl")
        if found is None:
            raise UserError("systemctl is not on PATH: a trial needs systemd; on Debian, apt-get install systemd")
        self.program = Path(found)

    def start(self, unit: str, *, wait: bool = True) -> None:
        """Start a unit. Raises SystemctlFailed where it does not become active."""
        self._run("start", *(() if wait else ("--no-block",)), unit)

    def stop(self, unit: str) -> None:
        """Stop a unit, its restarts included."""
        self._run("stop", unit)

    def reload(self) -> None:
        """Read unit files again."""
        self._run("daemon-reload")

    def forget_failures(self, unit: str) -> None:
        """Reset `failed` and the start limit's count. A unit that systemd has not in memory has none: it says so."""
        self._ask("reset-failed", unit)

    def show(self, unit: str, name: str) -> str:
        """A property's value; empty where it has none."""
        return self._run("show", unit, f"--property={name}", "--value").stdout.strip()

    def is_up(self, unit: str) -> bool:
        """Whether it is active, or on its way there."""
        return self.show(unit, "ActiveState") in ("active", "activating", "reloading")

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        done = self._ask(*words)
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())
            raise SystemctlFailed(f"systemctl {' '.join(words)}: {said or f'exit code {done.returncode}'}")
        return done

    def _ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([str(self.program), *words], capture_output=True, text=True, errors="replace")
