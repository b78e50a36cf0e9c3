"""Which unit serves now: the one named, or the one whose processes hold the GPUs or the port."""

import re
from collections.abc import Iterable
from pathlib import Path

from k25serve.deploy.trial.systemctl import Systemctl
from k25serve.server.config import Profile
from k25serve.server.config.shown import shown
from k25serve.server.engine.gpu_memory import gpu_holders
from k25serve.server.engine.holders import listener
from k25serve.server.errors import ConfigError

UNIT = re.compile(r"[\w:.\\@-]{1,251}\.service", re.ASCII)


def production_unit(given: str | None, profile: Profile, systemctl: Systemctl) -> str:
    """The unit that a trial of `profile` takes the place of. Raises ConfigError where there is not exactly one."""
    if given is not None:
        unit = given if "." in given else f"{given}.service"
        if not UNIT.fullmatch(unit):
            raise ConfigError(f"--production-unit {shown(given)}: no service's name; write it as vllm.service")
        if systemctl.show(unit, "ActiveState") != "active":
            raise ConfigError(f"--production-unit {unit}: is not active; start it, or name the unit that serves now")
        return unit
    pids = [holder.pid for holder in gpu_holders()]
    ports = (listener(profile.engine.port), listener(profile.gateway.port))
    found = units_of([*pids, *(pid for pid in ports if pid is not None)]) - {"k25serve-gateway.service"}
    if len(found) == 1:
        return found.pop()
    seen = f"several hold GPUs or ports: {', '.join(sorted(found))}" if found else "no service holds a GPU or the ports"
    raise ConfigError(f"{seen}; name the one that serves now with --production-unit")


def units_of(pids: Iterable[int], proc: Path = Path("/proc")) -> set[str]:
    """Units of the system that the processes belong to, by their cgroups: a user's own services are not its."""
    found = set()
    for pid in pids:
        try:
            lines = (proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:  # it ended, or is outside of this container
            continue
        paths = [line.split(":", 2)[-1] for line in lines if "/user.slice/" not in line]
        parts = [part for path in paths for part in path.split("/") if UNIT.fullmatch(part)]
        found.update(parts[:1])
    return found
