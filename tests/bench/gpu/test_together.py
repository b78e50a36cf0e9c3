"""Engines that start together: handed out when ready, stopped once, given up at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from k25serve.bench.gpu.booted import Booted, ProofError
from k25serve.bench.gpu.together import Starts, Together


@pytest.fixture
def stopped() -> list[str]:
    return []


def starting(name: str, stopped: list[str]) -> Starts:
    @contextmanager
    def start(given_up: Event) -> Iterator[Booted]:
        if name == "broken":
            raise ProofError("broken: ended with 1")
        if name == "slow" and given_up.wait(30):
            raise ProofError("slow: not ready in time")
        yield Booted(name, "", "", Path(), 0.0, 0)
        stopped.append(name)

    return start


def test_each_is_handed_out_and_stopped_once(stopped: list[str]) -> None:
    with Together({name: starting(name, stopped) for name in ("a", "b")}) as engines:
        assert [engines.get(name).name for name in ("b", "a")] == ["b", "a"]
        engines.stop("a")
        assert stopped == ["a"]
    assert stopped == ["a", "b"]


def test_one_that_fails_is_told_by_get_and_leaves_the_others(stopped: list[str]) -> None:
    with Together({name: starting(name, stopped) for name in ("broken", "a")}) as engines:
        with pytest.raises(ProofError, match="ended with 1"):
            engines.get("broken")
        assert engines.get("a").name == "a"
    assert stopped == ["a"]


def test_the_end_does_not_wait_for_one_that_still_starts(stopped: list[str]) -> None:
    with Together({name: starting(name, stopped) for name in ("slow", "a")}) as engines:
        engines.get("a")
    assert stopped == ["a"]
