import os
import sqlite3
from pathlib import Path

import pytest
from live_traffic.traffic import minutes, settings

from k25serve.server.errors import ConfigError
from k25serve.server.gateway.experiment.store import Batch, Stop, open_store, read_store, stop_store


@pytest.fixture
def given(tmp_path):
    return settings(state=tmp_path / "ab.db")


def rows(given, seed=0, count=3):
    return {(minute, arm): tally for minute, arm, tally in minutes(seed, count, given)}


def dumped(found):
    return {key: tally.dump() for key, tally in found.items()}


def test_what_workers_wrote_is_read_as_one_after_a_restart(given):
    mine, theirs = rows(given), rows(given, seed=1)
    store = open_store(given)
    store.write("one", Batch({}, [(7, "a", 0)]), 60.0)
    for _ in range(2):
        store.write("one", Batch(dumped(mine), [(7, "b", 1), (-8, "b", 1)]), 180.0)
    store.close()
    again = open_store(given)
    again.write("two", Batch(dumped(theirs), []), 185.0)
    found = list(again.tallies(1))
    assert [row[:2] for row in found] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    for minute, arm, tally in found:
        expected = mine[minute, arm]
        expected.merge(theirs[minute, arm])
        assert tally == expected
    assert again.sessions(before=1) == [{"a": 1}]
    assert again.sessions(before=2) == [{"a": 1}, {"b": 1}]
    assert again.last_seen() == 185.0
    again.close()


def test_stops_stay_and_the_last_arm_is_never_stopped(given):
    store = open_store(given)
    first = Stop("b", 10.0, "error_share", "30 of 200")
    assert store.stop([first], keep_one_of=given.weights) == [first]
    assert store.stop([first, Stop("a", 11.0, "error_share", "all")], keep_one_of=given.weights) == []
    store.close()
    reader = read_store(given.state)
    assert reader.stops() == [first]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.stop([Stop("a", 12.0, "x", "y")])
    reader.close()


def test_two_arms_that_go_at_once_leave_one(given):
    store = open_store(given)
    both = [Stop(arm, 10.0, "error_share", "all") for arm in ("b", "a")]
    assert [stop.arm for stop in store.stop(both, keep_one_of=given.weights)] == ["b"]
    store.close()


@pytest.mark.parametrize("row", ["{}", "text", '{"counts": {"new": 1}, "sums": {}}'])
def test_a_row_of_another_release_is_told(given, row):
    open_store(given).close()
    db = sqlite3.connect(given.state)
    db.execute("INSERT INTO minutes VALUES (7, 'a', 'w', ?)", (row,))
    db.execute("UPDATE meta SET value = '{}' WHERE key = 'settings'")
    db.commit()
    db.close()
    store = read_store(given.state)
    with pytest.raises(sqlite3.DatabaseError, match="minute 7 of a"):
        list(store.tallies())
    store.close()
    with pytest.raises(ConfigError, match="settings can't be read"):
        open_store(given)


@pytest.mark.parametrize(
    ("field", "value"), [("weights", {"a": 1, "b": 2}), ("alpha", 0.1), ("salt", "new"), ("name", "other")]
)
def test_another_experiment_is_refused(given, field, value):
    open_store(given).close()
    with pytest.raises(ConfigError, match=rf"gateway\.experiment\.{field} .*a state file of its own"):
        open_store(given.model_copy(update={field: value}))
    changed = given.guardrails.model_copy(update={"error_share": 0.5})
    open_store(given.model_copy(update={"guardrails": changed})).close()


def damage(path):
    open_store(settings(state=path)).close()
    content = bytearray(path.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    path.write_bytes(content)


def other_program(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.close()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.write_text("no database at all, but text" * 99), "file is not a database"),
        (damage, "malformed|not a database"),
        (other_program, "not an experiment's file"),
        (lambda path: path.mkdir(), "unable to open"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path, make, told):
    path = tmp_path / "ab.db"
    make(path)
    for opener, argument in ((open_store, settings(state=path)), (read_store, path), (stop_store, path)):
        with pytest.raises(ConfigError, match=r"gateway\.experiment\.state .*ab\.db") as error:
            opener(argument)
        assert "\n" not in str(error.value)
    if not path.is_dir():
        assert any(word in str(error.value) for word in told.split("|"))


def test_a_folder_that_is_not_there_and_a_file_that_is_not_there_are_told(tmp_path):
    with pytest.raises(ConfigError, match=r"unable to open.*name another"):
        open_store(settings(state=tmp_path / "none" / "ab.db"))
    with pytest.raises(ConfigError, match="no such file"):
        read_store(tmp_path / "ab.db")
    assert not (tmp_path / "ab.db").exists()


def test_a_folder_that_nobody_may_write_to_is_told():
    with pytest.raises(ConfigError, match="make the file and its folder readable and writable"):
        open_store(settings(state=Path("/proc/self/ab.db")))
