"""An experiment's state file: SQLite in WAL mode, one experiment in each, shared by all workers of a gateway.

Belongs to one thread at a time. Text of requests is never in it: a conversation is 64 bits of a salted hash.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from k25serve.server.errors import ConfigError
from k25serve.server.gateway.experiment.settings import ExperimentSettings
from k25serve.server.gateway.experiment.tally import Tally

_FORM = 1
_KEY = "gateway.experiment.state"
_FIXED = {"name", "salt", "mode", "control", "weights", "metrics", "covariates", "alpha", "min_output_tokens"}
"""What can't change while an experiment runs, or its numbers would mean two things."""
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE minutes (
  minute INTEGER, arm TEXT, worker TEXT, tally TEXT NOT NULL, PRIMARY KEY (minute, arm, worker)
) WITHOUT ROWID;
CREATE TABLE sessions (session INTEGER PRIMARY KEY, arm TEXT NOT NULL, minute INTEGER NOT NULL);
CREATE TABLE stops (arm TEXT PRIMARY KEY, at REAL NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE workers (worker TEXT PRIMARY KEY, seen REAL NOT NULL);
"""
BY_HAND = "by hand"


class Stop(NamedTuple):
    """An arm gets no more requests. `reason`: a guardrail's name, or BY_HAND. `at`: Unix time, seconds."""

    arm: str
    at: float
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker has counted: `minutes`, as Tally.dump() gives them, replaces its earlier rows.

    `sessions`: (conversation, arm, minute in which it began).
    """

    minutes: Mapping[tuple[int, str], bytes]
    sessions: Iterable[tuple[int, str, int]]


class Store:
    """Raises sqlite3.Error from every method where the file can't be read or written after it was opened."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def write(self, worker: str, batch: Batch, now: float) -> None:
        rows = [(minute, arm, worker, tally) for (minute, arm), tally in batch.minutes.items()]
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO minutes VALUES (?, ?, ?, CAST(? AS TEXT))", rows)
            self._db.executemany("INSERT OR IGNORE INTO sessions VALUES (?, ?, ?)", batch.sessions)
            self._db.execute("INSERT OR REPLACE INTO workers VALUES (?, ?)", (worker, now))

    def stop(self, stops: Iterable[Stop], keep_one_of: Iterable[str] = ()) -> list[Stop]:
        """Notes stops; those that were new. One that would leave none of `keep_one_of` is left out."""
        done = []
        with self._transaction():
            left = set(keep_one_of)
            left -= {stop.arm for stop in self.stops()}
            for stop in stops:
                if left == {stop.arm}:
                    continue
                if self._db.execute("INSERT OR IGNORE INTO stops VALUES (?, ?, ?, ?)", stop).rowcount:
                    left.discard(stop.arm)
                    done.append(stop)
        return done

    def stops(self) -> list[Stop]:
        return [Stop(*row) for row in self._db.execute("SELECT arm, at, reason, detail FROM stops ORDER BY at")]

    def tallies(self, since: int = 0) -> Iterator[tuple[int, str, Tally]]:
        """(minute, arm, what all workers counted there), in order."""
        held: tuple[int, str, Tally] | None = None
        rows = self._db.execute(
            "SELECT minute, arm, tally FROM minutes WHERE minute >= ? ORDER BY minute, arm, worker", (since,)
        )
        for minute, arm, text in rows:
            try:
                tally = Tally.load(text)
            except (KeyError, TypeError, ValueError) as error:
                raise sqlite3.DatabaseError(f"minute {minute} of {arm} can't be read") from error
            if held is not None and held[:2] == (minute, arm):
                held[2].merge(tally)
                continue
            if held is not None:
                yield held
            held = (minute, arm, tally)
        if held is not None:
            yield held

    def sessions(self, before: int) -> list[dict[str, int]]:
        """Conversations of each arm by the minute in which they began, the minutes in order."""
        minutes: dict[int, dict[str, int]] = {}
        rows = self._db.execute(
            "SELECT minute, arm, COUNT(*) FROM sessions WHERE minute < ? GROUP BY minute, arm ORDER BY minute",
            (before,),
        )
        for minute, arm, count in rows:
            minutes.setdefault(minute, {})[arm] = count
        return list(minutes.values())

    def last_seen(self) -> float | None:
        """Unix time at which a gateway last wrote."""
        (seen,) = self._db.execute("SELECT MAX(seen) FROM workers").fetchone()
        return None if seen is None else float(seen)

    def settings(self) -> ExperimentSettings:
        """Those that the experiment was begun with."""
        try:
            return ExperimentSettings.model_validate_json(_meta(self._db, "settings") or "{}")
        except ValueError as error:
            raise sqlite3.DatabaseError("the experiment's settings can't be read") from error

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # At once, so that no other worker writes between what is read here and what is written for it.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def open_store(settings: ExperimentSettings) -> Store:
    """Opens or makes the file of an experiment that a gateway runs.

    Raises:
        ConfigError: it can't be read or written, is damaged, or holds something else.
    """
    path = settings.state
    with _told(path):
        db = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            # Workers open it at the same time.
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES.split(";"):
                    db.execute(statement)
                rows = {"form": str(_FORM), "settings": settings.model_dump_json()}
                db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            db.execute("COMMIT")
            _check(db, path)
            store = Store(db)
            _same(store.settings(), settings)
        except BaseException:
            db.close()
            raise
    return store


def read_store(path: Path) -> Store:
    """Opens the file to read it, beside a gateway or without one. Raises ConfigError as open_store() does."""
    return _existing(path, "ro")


def stop_store(path: Path) -> Store:
    """Opens the file to stop an experiment. Raises ConfigError as open_store() does."""
    return _existing(path, "rw")


def _existing(path: Path, mode: str) -> Store:
    if not path.is_file():
        raise ConfigError(f"{_KEY} {str(path)!r}: there is no such file; a gateway with the experiment makes it")
    with _told(path):
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=5, isolation_level=None)
        try:
            _check(db, path)
        except BaseException:
            db.close()
            raise
    return Store(db)


def _check(db: sqlite3.Connection, path: Path) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "meta" not in tables or _meta(db, "form") != str(_FORM):
        raise ConfigError(f"{_KEY} {str(path)!r}: not an experiment's file of this release; name another file")
    damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise sqlite3.DatabaseError(damage)


def _meta(db: sqlite3.Connection, key: str) -> str | None:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def _same(begun: ExperimentSettings, given: ExperimentSettings) -> None:
    before, after = (one.model_dump(mode="json", include=_FIXED) for one in (begun, given))
    before["shadow"], after["shadow"] = (one.shadow and one.shadow.arm for one in (begun, given))
    for field, value in after.items():
        if before[field] != value:
            raise ConfigError(
                f"gateway.experiment.{field} is {value!r}, but {str(given.state)!r} was begun with {before[field]!r}; "
                "put it back, or give the new experiment a name and a state file of its own"
            )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ConfigError(
            f"{_KEY} {str(path)!r}: {error}; make the file and its folder readable and writable, or name another file "
            "(a damaged one can't be mended: its experiment has to begin anew)"
        ) from error
