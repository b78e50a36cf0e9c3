"""Every answer replaced by the served model's own: a drafter learns best from what it will be asked to draft."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.gate.client import Engine
from k25serve.drafters.training.data.answers import Answer, AnswerFile, key_of
from k25serve.drafters.training.data.ask import NoAnswer, ask
from k25serve.drafters.training.data.conversation import REASONING, Conversation, Message
from k25serve.drafters.training.data.gather import Gathered, trimmed
from k25serve.drafters.training.data.options import DataOptions, Regenerate, Thinking
from k25serve.drafters.training.data.spool import Entry, Spool
from k25serve.drafters.training.progress import Progress

FIRST_WAIT_S = 1.0


def regenerate(
    options: DataOptions,
    wanted: Regenerate,
    gathered: Gathered,
    spools: tuple[Spool, Spool],
    answers: Path,
    counts: Counter[str],
    progress: Progress,
) -> None:
    """Read each entry's conversation from the first spool, write it with new answers to the second.

    `gathered.entries` then point there. Answers are kept in the file `answers` as they come.
    Raises TrainingError where some were not answered, unless the options say to skip those; asking again goes on.
    """
    progress.start("ask for answers", len(gathered.entries))
    with AnswerFile(answers) as kept:
        work = _Work(options.thinking, wanted, gathered, spools, kept, counts, progress)
        asyncio.run(work.run())
    if work.failed and not options.skip_bad:
        raise TrainingError(
            f"--regenerate {wanted.url}: {len(work.failed)} of {len(gathered.entries)} conversations were not answered "
            f"({work.failed[0]}); run the same command again (finished answers are kept), or pass --skip-bad"
        )
    gathered.dropped["not answered"] += len(work.failed)
    gathered.entries = sorted(work.done)


class _Work:
    def __init__(
        self,
        thinking: Thinking,
        wanted: Regenerate,
        gathered: Gathered,
        spools: tuple[Spool, Spool],
        kept: AnswerFile,
        counts: Counter[str],
        progress: Progress,
    ) -> None:
        self._thinking, self._wanted, self._gathered = thinking, wanted, gathered
        self._asked, self._answered = spools
        self._kept, self._counts, self._progress = kept, counts, progress
        self._model = ""
        self.done: list[Entry] = []
        self.failed: list[str] = []

    async def run(self) -> None:
        """`concurrency` conversations at a time, each turn by turn."""
        timeout = aiohttp.ClientTimeout(total=self._wanted.timeout_s)
        connector = aiohttp.TCPConnector(limit=self._wanted.concurrency)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            self._model = await Engine(session, self._wanted.url, self._wanted.model).model()
            entries = iter(self._gathered.entries)
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._wanted.concurrency, len(self._gathered.entries))):
                    group.create_task(self._next(session, entries))

    async def _next(self, session: aiohttp.ClientSession, entries: Iterator[Entry]) -> None:
        for entry in entries:
            conversation = self._asked.read(entry)
            try:
                messages = await self._messages(session, entry, conversation)
            except NoAnswer as error:
                self.failed.append(f"{entry.place}: {error}")
            else:
                answered = trimmed(replace(conversation, messages=tuple(messages)))
                if answered.messages:
                    self.done.append(replace(entry, offset=self._answered.append(answered)))
                else:
                    self._gathered.dropped["answer cut at max_tokens"] += 1
            self._progress.advance()

    async def _messages(
        self, session: aiohttp.ClientSession, entry: Entry, conversation: Conversation
    ) -> list[Message]:
        messages: list[Message] = []
        new_ids: dict[str, str] = {}
        for message in conversation.messages:
            if message["role"] != "assistant":
                call_id = message.get("tool_call_id")
                messages.append(message | {"tool_call_id": new_ids.get(call_id, call_id)} if call_id else message)
                continue
            answer = await self._answer(session, entry, conversation, messages, bool(message.get(REASONING)))
            if answer.cut:
                self._counts["conversations_cut_at_max_tokens"] += 1
                break
            messages.append(answer.message)
            old, new = message.get("tool_calls") or [], answer.message.get("tool_calls") or []
            if [call["function"]["name"] for call in old] != [call["function"]["name"] for call in new]:
                # What follows answers calls that were not made.
                self._counts["conversations_cut_at_other_calls"] += 1
                break
            new_ids = {a.get("id", ""): b.get("id", "") for a, b in zip(old, new, strict=True)}
        return messages

    async def _answer(
        self,
        session: aiohttp.ClientSession,
        entry: Entry,
        conversation: Conversation,
        messages: list[Message],
        thought: bool,
    ) -> Answer:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "temperature": self._wanted.temperature,
            "max_tokens": self._wanted.max_tokens,
            "chat_template_kwargs": {
                "thinking": thought if self._thinking is Thinking.AS_IS else self._thinking is Thinking.ON
            },
        }
        if conversation.tools:
            body["tools"] = list(conversation.tools)
        key = key_of(entry.id, body)
        answer = self._kept.get(key)
        if answer is not None:
            self._counts["answers_kept_from_before"] += 1
            return answer
        answer = await ask(session, self._wanted.url, body, self._wanted.retries, FIRST_WAIT_S)
        self._counts["answers_asked_for"] += 1
        self._kept.keep(key, answer)
        return answer
