"""Turns on disk as they end, so that an A/B of many hours goes on after an interruption."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from k25serve.bench.ab.turn import TurnRun
from k25serve.server.errors import UserError

DIGEST = 12
UNITS = "units.json"


class Journal:
    """A folder for one plan: `key` is everything that decides what is asked, so another plan has another folder."""

    def __init__(self, parent: Path, key: Mapping[str, Any]) -> None:
        digest = hashlib.sha256(orjson.dumps(key, option=orjson.OPT_SORT_KEYS)).hexdigest()[:DIGEST]
        self.folder = parent / f"unfinished-{digest}"

    def turns(self) -> list[TurnRun]:
        """Finished turns, in order. Raises UserError for a file that is none."""
        found: list[TurnRun] = []
        while (path := self._path(len(found))).exists():
            try:
                found.append(TurnRun.model_validate_json(path.read_bytes()))
            except ValidationError as error:
                raise UserError(f"{path}: not a finished turn ({error.error_count()} faults); remove it") from None
        return found

    def add(self, number: int, turn: TurnRun) -> None:
        """Keep a turn, in one step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self._path(number).with_suffix(".part")
        part.write_text(turn.model_dump_json())
        part.replace(self._path(number))

    def unit_states(self, now: Mapping[str, bool]) -> dict[str, bool]:
        """How the units were before the first start: a killed run leaves them otherwise."""
        path = self.folder / UNITS
        if path.exists():
            return dict(orjson.loads(path.read_bytes()))
        if now:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(orjson.dumps(dict(now)))
        return dict(now)

    def forget_units(self) -> None:
        """They are as they were."""
        (self.folder / UNITS).unlink(missing_ok=True)

    def remove(self) -> None:
        """Once the result is written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"turn-{number:03}.json"
