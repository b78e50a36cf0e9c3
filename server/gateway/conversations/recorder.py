"""The conversation log inside a running gateway: which requests are recorded, and when their answers are handed on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.conversations.answer import AnswerParts
from k25serve.server.gateway.conversations.directory import prepare_directory
from k25serve.server.gateway.conversations.files import LogFiles
from k25serve.server.gateway.conversations.line import Conversation
from k25serve.server.gateway.conversations.prompt import is_recordable
from k25serve.server.gateway.conversations.settings import ConversationLogSettings
from k25serve.server.gateway.conversations.writer import Writer
from k25serve.server.gateway.ended import Ended
from k25serve.server.gateway.metrics import Metrics
from k25serve.server.gateway.plan import Plan, Request
from k25serve.server.gateway.settings import GatewaySettings

_GOOD_ENDS = ("stop", "tool_calls")
_FLUSH_S = 8.0
"""At the end, for what is still queued. A supervisor of workers kills one 10 s after its drain."""


class Recording:
    """One request at one arm. `answer` takes what the engine says; None: nothing can be written any more."""

    __slots__ = ("_arm", "_plan", "_request", "_started", "_thinking", "_writer", "answer")

    def __init__(self, writer: Writer, request: Request, plan: Plan, arm: ArmSettings, thinking: bool | None) -> None:
        self._writer = writer
        self._request = request
        self._plan = plan
        self._arm = arm
        self._thinking = thinking
        self._started = time.time()
        self.answer = None if writer.off else AnswerParts()

    def also(self, told: Callable[[Ended], None] | None) -> Callable[[Ended], None]:
        """For the meter of the attempt: hands a good answer on, once `told` has been told of it."""

        def both(ended: Ended) -> None:
            if told is not None:
                told(ended)
            self._ended(ended)

        return both

    def _ended(self, ended: Ended) -> None:
        if ended.outcome != "ok" or ended.finish not in _GOOD_ENDS:
            return
        conversation = Conversation(
            id=self._plan.rid,
            started=self._started,
            model=self._arm.model or self._request.body["model"],
            arm=self._arm.name,
            body=self._request.body,
            rules=self._plan.rules,
            thinking=self._thinking,
            answer=self.answer,
            finish=ended.finish,
            usage=ended.usage,
        )
        self._writer.put(conversation, len(self._request.raw) + (0 if self.answer is None else self.answer.size))


class Recorder:
    """Belongs to one event loop."""

    def __init__(self, gateway: GatewaySettings, sample: float, writer: Writer) -> None:
        self._thinking = gateway.thinking.default
        self._below = round(sample * 2**32)
        self._writer = writer

    def begin(self, request: Request, plan: Plan, arm: ArmSettings) -> Recording | None:
        """None: the request isn't recorded, whatever becomes of it. The plan's id is random, so it draws the sample."""
        if int(plan.rid[:8], 16) >= self._below or not plan.one_choice or not is_recordable(request.body):
            return None
        return Recording(self._writer, request, plan, arm, self._thinking)


@contextlib.asynccontextmanager
async def running_recorder(
    gateway: GatewaySettings, settings: ConversationLogSettings, metrics: Metrics
) -> AsyncIterator[Recorder]:
    """Writes while the block runs, and at its end what is still queued.

    Raises:
        ConfigError: the directory can't be used.
    """
    prepare_directory(settings.directory)
    writer = Writer(LogFiles(settings.directory, settings.max_bytes, settings.keep), metrics, str(settings.directory))
    writer.start()
    try:
        yield Recorder(gateway, settings.sample, writer)
    finally:
        await asyncio.to_thread(writer.end, _FLUSH_S)
