"""The engine's side: one session, opened calls, aborts."""

import asyncio
import io
import logging
from typing import Any

import aiohttp
import orjson

from k25serve.server.gateway.errors import ClosedError, UnreachableError
from k25serve.server.gateway.metrics import Metrics
from k25serve.server.gateway.settings import GatewaySettings

_log = logging.getLogger(__name__)

# SGLang's uvicorn closes an idle connection after 5 s. A POST sent in that instant is lost and can't be repeated
# safely, so ours are dropped well before.
_KEEPALIVE_S = 2.0
_ABORT_TIMEOUT_S = 5.0


class Upstream:
    """Calls to one engine. `session` belongs to whoever made it; `close` ends only what this object started."""

    def __init__(self, settings: GatewaySettings, session: aiohttp.ClientSession, metrics: Metrics) -> None:
        self._settings = settings
        self._session = session
        self._metrics = metrics
        self._aborts: set[asyncio.Task[None]] = set()
        # Compressed answers could not be read on the way through.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if settings.upstream_api_key is not None:
            self._headers["Authorization"] = f"Bearer {settings.upstream_api_key.get_secret_value()}"

    async def open(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        """Sends a request and waits for the answer's headers, which SGLang holds back until the first token.

        The caller closes the response. Cancelling this closes the connection.

        Raises:
            UnreachableError: no connection.
            ClosedError: the engine hung up without an answer.
        """
        url = self._settings.upstream
        try:
            # aiohttp writes plain bytes in one go, whatever their size; a stream of them lets other requests run.
            return await self._session.post(
                url + path, data=io.BytesIO(body), headers=self._headers, allow_redirects=False
            )
        except aiohttp.ConnectionTimeoutError as error:
            limit = self._settings.connect_timeout_s
            raise self._unreachable(f"did not accept a connection within {limit:g} s", "connect_timeout") from error
        except aiohttp.ClientConnectorError as error:
            raise self._unreachable("accepts no connection", "refused") from error
        except aiohttp.ClientError as error:
            raise ClosedError(
                f"The engine at {url} closed the connection without an answer. Its log says why.",
                "closed_before_answer",
            ) from error

    def _unreachable(self, what: str, kind: str) -> UnreachableError:
        retry = self._settings.retry_after_s
        return UnreachableError(f"The engine at {self._settings.upstream} {what}. Try again in {retry} s.", kind, retry)

    async def status(self, method: str, path: str, timeout_s: float, body: dict[str, Any] | None = None) -> int | None:
        """The HTTP status of a whole exchange, or None if there was none in time."""
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method,
                    self._settings.upstream + path,
                    data=None if body is None else orjson.dumps(body),
                    headers=self._headers,
                ) as response,
            ):
                await response.read()
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return None

    def abort(self, rid: str) -> None:
        """Tells the engine, in the background, to stop working on one of our requests.

        Closing the connection does that too, but SGLang acts on it only up to two seconds later. With n > 1 it is all
        there is: SGLang gives each choice an id of its own then (tokenizer_manager.py, 0.5.23).
        """
        task = asyncio.create_task(self._abort(rid), name=f"abort {rid}")
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _abort(self, rid: str) -> None:
        status = await self.status("POST", "/abort_request", _ABORT_TIMEOUT_S, {"rid": rid})
        self._metrics.aborts.labels("ok" if status == 200 else "failed").inc()
        if status != 200:
            _log.warning("abort of request %s failed: HTTP status %s", rid, status)

    async def close(self) -> None:
        """Waits for the aborts that are under way."""
        await asyncio.gather(*self._aborts)


def open_session(connect_timeout_s: float) -> aiohttp.ClientSession:
    """A session without a limit on connections or on an answer's length."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
