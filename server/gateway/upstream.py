"""An arm's side: opened calls, aborts."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from k25serve.server.gateway.arms.dialects import WORDS
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.connection import WireError
from k25serve.server.gateway.errors import ClosedError, UnreachableError
from k25serve.server.gateway.metrics import Metrics
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.wire import Answer, Wire

_log = logging.getLogger(__name__)

_ABORT_TIMEOUT_S = 5.0


class Upstream:
    """Calls to one arm."""

    def __init__(self, settings: GatewaySettings, arm: ArmSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._url = arm.url
        self._abort_path = WORDS[arm.dialect].abort_path
        self._wire = Wire(arm.url, settings.connect_timeout_s)
        self._metrics = metrics
        self._aborts: set[asyncio.Task[None]] = set()
        # Compressed answers could not be read on the way through.
        self._headers = b"content-type: application/json\r\naccept: */*\r\naccept-encoding: identity\r\n"
        if arm.api_key is not None:
            self._headers += f"authorization: Bearer {arm.api_key.get_secret_value()}\r\n".encode()

    async def open(
        self, path: str, body: bytes, trace: Mapping[str, str], until: float, sent: Callable[[], None]
    ) -> Answer:
        """Sends a request and waits for the answer's headers, which SGLang holds back until the first token.

        `trace`: headers to send beside our own. `until`: on the event loop's clock. `sent`: called
        when the request has left. The caller closes the response. Cancelling this closes the connection.

        Raises:
            UnreachableError: no connection.
            ClosedError: the engine hung up without an answer.
            TimeoutError: no headers by `until`.
        """
        headers = self._headers
        if trace:
            headers += "".join(f"{name}: {value}\r\n" for name, value in trace.items()).encode("latin-1")
        try:
            return await self._wire.ask("POST", path, headers, body, until, sent)
        except ConnectionAbortedError as error:
            limit = self._settings.connect_timeout_s
            raise self._unreachable(f"did not accept a connection within {limit:g} s", "connect_timeout") from error
        except ConnectionError as error:
            raise self._unreachable("accepts no connection", "refused") from error
        except WireError as error:
            raise ClosedError(
                f"The engine at {self._url} closed the connection without an answer. Its log says why.",
                "closed_before_answer",
            ) from error

    def _unreachable(self, what: str, kind: str) -> UnreachableError:
        retry = self._settings.retry_after_s
        return UnreachableError(f"The engine at {self._url} {what}. Try again in {retry} s.", kind, retry)

    async def status(self, method: str, path: str, timeout_s: float, body: dict[str, Any] | None = None) -> int | None:
        """The HTTP status of a whole exchange, or None if there was none in time."""
        until = asyncio.get_running_loop().time() + timeout_s
        data = b"" if body is None else orjson.dumps(body)
        try:
            answer = await self._wire.ask(method, path, self._headers, data, until)
            try:
                await answer.read(until)
            finally:
                answer.close()
        except (ConnectionError, TimeoutError, WireError):
            return None
        return answer.status

    def abort(self, rid: str) -> None:
        """Tells the engine, in the background, to stop working on one of our requests, where its dialect can say so.

        Closing the connection does that too, but SGLang acts on it only up to two seconds later. With n > 1 it is all
        there is: SGLang gives each choice an id of its own then (tokenizer_manager.py, 0.5.23).
        """
        if self._abort_path is None:
            return
        task = asyncio.create_task(self._abort(self._abort_path, rid), name=f"abort {rid}")
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _abort(self, path: str, rid: str) -> None:
        status = await self.status("POST", path, _ABORT_TIMEOUT_S, {"rid": rid})
        self._metrics.aborts.labels("ok" if status == 200 else "failed").inc()
        if status != 200:
            _log.warning("abort of request %s failed: HTTP status %s", rid, status)

    async def close(self) -> None:
        """Waits for the aborts that are under way, then hangs up."""
        await asyncio.gather(*self._aborts)
        self._wire.close()
