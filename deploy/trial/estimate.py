"""How long production will need to come back."""

import json
from collections.abc import Iterable
from pathlib import Path

from k25serve.deploy.trial.systemctl import Systemctl
from k25serve.server.engine.preflight import weight_bytes

# 547 GB took 30 to 90 minutes on the machine that this project serves.
SLOW, FAST = 547e9 / (90 * 60), 547e9 / (30 * 60)  # bytes a second
# A unit of Type=simple counts as started at once: that says nothing of its load.
TELLING_S = 30.0


def minutes_back(unit: str, target: str, systemctl: Systemctl, records: Iterable[Path]) -> str:
    """In words: from the unit's last start, else from a load of the same weights, else from their size.

    records: files that `k25serve` wrote after loads, the newest last.
    """
    names = ("InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    left, entered = (int(systemctl.show(unit, name) or 0) for name in names)
    seconds = (entered - left) / 1e6
    if seconds >= TELLING_S:
        return f"about {_minutes(seconds)}: {unit}'s last start took that long"
    size = weight_bytes(target)
    measured = [
        record["seconds"]
        for record in map(_read, records)
        if record.get("target_bytes") == size and "seconds" in record
    ]
    if measured:
        return f"about {_minutes(measured[-1])}: the last load of as many bytes took that long"
    return f"{_minutes(size / FAST)} to {_minutes(size / SLOW)}: {size / 1e9:,.1f} GB at 0.1 to 0.3 GB a second"


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def _read(path: Path) -> dict[str, float]:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):  # an estimate does without it
        return {}
    return record if isinstance(record, dict) else {}
