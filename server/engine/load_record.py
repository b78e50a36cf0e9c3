"""How long a load took, kept beside the log for the estimate of the next one."""

import json
from pathlib import Path

from k25serve.server.config import Profile
from k25serve.server.engine.preflight import weight_bytes


def record_load(profile: Profile, log: Path, seconds: float) -> None:
    """Write `log`'s neighbour `.load.json`: seconds to ready, bytes of the target."""
    record = {"seconds": round(seconds, 1), "target_bytes": weight_bytes(profile.target)}
    log.with_suffix(".load.json").write_text(json.dumps(record) + "\n", encoding="ascii")


def last_seconds(log: Path) -> float | None:
    """Seconds of the last load recorded beside `log`; None where there is none that can be read."""
    try:
        return float(json.loads(log.with_suffix(".load.json").read_bytes())["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
