"""The campaign's memory: what each step came to, and which unit has to run again. One file, replaced in one step."""

import contextlib
import fcntl
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, ValidationError

from k25serve.bench.load.record import Frozen
from k25serve.bench.prove.configuration import Configuration
from k25serve.bench.provenance import sha256
from k25serve.server.errors import UserError

NAME, LOCK = "prove.json", "prove.lock"


class Entry(Frozen):
    """How a step ended. file: its result, from the campaign's folder; empty where it has none."""

    status: Literal["done", "skipped", "failed"]
    told: str
    file: str = ""
    sha256: str = ""
    ended: datetime
    seconds: NonNegativeFloat


class State(Frozen):
    """salt: of the prompts' texts, the same for all arms. production: units as they were found; None: as they are."""

    configuration: Configuration
    salt: str
    steps: dict[str, Entry] = Field(default_factory=dict)
    production: dict[str, bool] | None = None


class Journal:
    """`state` is always what the file holds."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """What is in `folder`; None where no campaign was begun. Raises UserError for a file that is no journal."""
        path = folder / NAME
        try:
            return cls(folder, State.model_validate_json(path.read_bytes()))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) or "the file"
            raise UserError(f"{path}: {where}: no journal of this version; give --output another folder") from None

    @classmethod
    def begin(cls, folder: Path, configuration: Configuration) -> Self:
        """A new one."""
        journal = cls(folder, State(configuration=configuration, salt=_salt()))
        journal._write(journal.state)
        return journal

    def finished(self, name: str) -> bool:
        """Whether a step need not be run: it ended, and its result is as it was written."""
        entry = self.state.steps.get(name)
        if entry is None or entry.status == "failed":
            return False
        path = self.folder / entry.file
        return not entry.file or (path.is_file() and sha256(path) == entry.sha256)

    def result(self, name: str) -> Path | None:
        """A finished step's file."""
        entry = self.state.steps.get(name)
        return self.folder / entry.file if entry is not None and entry.status == "done" and entry.file else None

    def add(
        self, name: str, status: Literal["done", "skipped", "failed"], told: str, file: Path | None, seconds: float
    ) -> None:
        """Keep how a step ended."""
        entry = Entry(
            status=status,
            told=told,
            file="" if file is None else str(file.relative_to(self.folder)),
            sha256="" if file is None else sha256(file),
            ended=datetime.now(UTC),
            seconds=seconds,
        )
        self._write(self.state.model_copy(update={"steps": self.state.steps | {name: entry}}))

    def new_salt(self) -> None:
        """Other texts, since an engine that goes on running may remember those of an interrupted sweep."""
        self._write(self.state.model_copy(update={"salt": _salt()}))

    def keep_production(self, found: Mapping[str, bool]) -> dict[str, bool]:
        """How units were before the first was touched: a killed campaign left them otherwise."""
        if self.state.production is None:
            self._write(self.state.model_copy(update={"production": dict(found)}))
        return dict(self.state.production or {})

    def production_is_back(self) -> None:
        """Units are as they were found."""
        self._write(self.state.model_copy(update={"production": None}))

    def _write(self, state: State) -> None:
        part = self.folder / f"{NAME}.part"
        part.write_text(state.model_dump_json(indent=1) + "\n")
        part.replace(self.folder / NAME)
        self.state = state


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process for each folder; the kernel lets go of the lock of one that was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"--output {folder}: another `prove` is at work there; wait, or stop that one") from None
        yield


def _salt() -> str:
    return f"prove-{secrets.token_hex(4)}"
