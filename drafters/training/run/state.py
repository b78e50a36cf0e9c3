"""state.json: what is begun and finished, from which inputs, with which results."""

import json
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.settings import Settings


class Record(Settings):
    """One step. settings, upstream: hashes of what it was asked and of what it was made from; result: of what it made.

    seconds: of all starts together; facts: for the reader.
    """

    status: Literal["begun", "finished"]
    settings: str
    upstream: str
    result: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = Field(default_factory=dict)


class State:
    """Written whole at each change, so that a kill leaves the one before or the one after."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: dict[str, Record] = {}
        self.config: dict[str, Any] = {}
        if not path.is_file():
            return
        try:
            stored = json.loads(path.read_bytes())
            self.config = dict(stored["config"])
            self.records = {name: Record.model_validate(one) for name, one in stored["steps"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            raise TrainingError(f"{path}: not a run's state; give another --out") from None

    def ask(self, config: dict[str, Any]) -> None:
        """Note what the run was asked for."""
        self.config = config
        self._write()

    def begin(self, name: str, settings: str, upstream: str) -> None:
        """Seconds of an earlier start of the same work are kept."""
        before = self.records.get(name)
        same = before is not None and (before.settings, before.upstream) == (settings, upstream)
        seconds = before.seconds if before is not None and same else 0.0
        self.records[name] = Record(status="begun", settings=settings, upstream=upstream, seconds=seconds)
        self._write()

    def finish(self, name: str, result: str, started: float, facts: dict[str, Any]) -> None:
        """started: by time.monotonic()."""
        record = self.records[name]
        self.records[name] = record.model_copy(
            update={
                "status": "finished",
                "result": result,
                "seconds": round(record.seconds + time.monotonic() - started, 3),
                "facts": facts,
            }
        )
        self._write()

    def forget(self, name: str) -> None:
        """The step's results are gone."""
        if self.records.pop(name, None) is not None:
            self._write()

    def finished(self, name: str) -> Record | None:
        """The record of a step that is finished."""
        record = self.records.get(name)
        return record if record is not None and record.status == "finished" else None

    def _write(self) -> None:
        steps = {name: record.model_dump(mode="json") for name, record in self.records.items()}
        write_whole(self._path, (json.dumps({"config": self.config, "steps": steps}, indent=2) + "\n").encode())
