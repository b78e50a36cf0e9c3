"""From the request's path to the disk: a bounded queue and one thread, so that no request ever waits."""

import logging
import threading
from queue import SimpleQueue

import orjson

from k25serve.server.gateway.conversations.files import LogFiles
from k25serve.server.gateway.conversations.line import Conversation, line_of
from k25serve.server.gateway.direct import Count
from k25serve.server.gateway.metrics import Metrics

MAX_QUEUED = 1024
MAX_QUEUED_BYTES = 64 * 1024 * 1024
"""Of requests and answers together; one that is larger alone has its place in an empty queue."""

_log = logging.getLogger(__name__)


class Writer:
    """Counts every conversation that it is given, once. `put` belongs to one thread."""

    def __init__(self, files: LogFiles, metrics: Metrics, where: str) -> None:
        self._files = files
        self._where = where
        family = metrics.conversations_logged
        # All of them from the start, so that a rate has where to begin.
        self._written, self._dropped, self._failed = (
            Count(family.labels(outcome)) for outcome in ("written", "dropped", "failed")
        )
        self._queue: SimpleQueue[tuple[Conversation, int] | None] = SimpleQueue()
        # Each is changed by one thread alone.
        self._bytes_in = 0
        self._bytes_out = 0
        self.off = False
        """The disk failed: nothing is written any more."""
        self._thread = threading.Thread(target=self._run, name="conversation log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, conversation: Conversation, size: int) -> None:
        """`size`: about how many bytes it holds in memory."""
        waiting = self._bytes_in - self._bytes_out
        if self._queue.qsize() >= MAX_QUEUED or (waiting and waiting + size > MAX_QUEUED_BYTES):
            self._dropped.add(1)
            return
        self._bytes_in += size
        self._queue.put((conversation, size))

    def end(self, seconds: float) -> None:
        """Waits until all is written, at most so long."""
        self._queue.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            left = self._queue.qsize()
            _log.error("conversation log: %s is too slow; %d conversations are not written", self._where, left)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            conversation, size = item
            self._write(conversation)
            self._bytes_out += size
        try:
            self._files.close()
        except OSError as error:
            self._turn_off(error)

    def _write(self, conversation: Conversation) -> None:
        if self.off:
            self._failed.add(1)
            return
        try:
            line = line_of(conversation)
            if line is not None:
                self._files.append(line)
                self._written.add(1)
        except orjson.JSONEncodeError:
            self._failed.add(1)
        except OSError as error:
            self._failed.add(1)
            self._turn_off(error)

    def _turn_off(self, error: OSError) -> None:
        self.off = True
        _log.error(
            "conversation log: can't write in %s (%s); nothing more is recorded until the gateway is started again",
            self._where,
            error.strerror or error,
        )
