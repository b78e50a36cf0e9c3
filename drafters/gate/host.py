"""What `drafter compare` needs from the program around it: starting profiles, and result files with provenance."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.gate.compare import Boot

# Notes the start of a measurement of a kind; what it returns takes the data and a folder, and gives the file written.
StartRecord = Callable[[str], Callable[[dict[str, Any], Path], Path]]


@dataclass(frozen=True)
class Host:
    """Found as the command line's context object."""

    boot: Boot
    start_record: StartRecord
