"""Engines that start at the same time: a start is mostly compiling and importing, on cores that would else be idle."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self

from k25serve.bench.gpu.booted import Booted

Starts = Callable[[threading.Event], AbstractContextManager[Booted]]
"""Makes the context manager of one engine; once the event is set it gives up waiting for readiness."""


class Together:
    """As a context manager: starts all, hands each out when it is ready, stops what still runs at the end."""

    def __init__(self, starts: Mapping[str, Starts]) -> None:
        self._starts = starts
        self._given_up = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(starts)))
        self._entered: dict[str, ExitStack] = {}
        self._futures: dict[str, Future[Booted]] = {}

    def __enter__(self) -> Self:
        self._futures = {name: self._pool.submit(self._enter, name) for name in self._starts}
        return self

    def _enter(self, name: str) -> Booted:
        stack = ExitStack()
        booted = stack.enter_context(self._starts[name](self._given_up))
        self._entered[name] = stack
        return booted

    def get(self, name: str) -> Booted:
        """Wait for an engine. Raises what its start raised."""
        return self._futures[name].result()

    def stop(self, name: str) -> None:
        """Stop an engine that is ready."""
        self._entered.pop(name).close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._given_up.set()
        self._pool.shutdown(wait=True)
        with ExitStack() as everything:
            for stack in self._entered.values():
                everything.callback(stack.close)
