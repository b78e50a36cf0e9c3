"""One conversation as its line. Pure."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import orjson

from k25serve.server.gateway.conversations.answer import REASONING, AnswerParts
from k25serve.server.gateway.conversations.prompt import told_messages
from k25serve.server.gateway.dialect.choice import rewrite_message
from k25serve.server.gateway.dialect.rules import AnswerRules
from k25serve.server.gateway.dialect.thinking import thinking_mode
from k25serve.server.gateway.usage import Usage


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """A request that was answered well. `started`: Unix time, seconds. `thinking`: for requests that don't say.

    `answer` None: it was not kept, since nothing can be written any more.
    """

    id: str
    started: float
    model: str
    arm: str
    body: dict[str, Any]
    rules: AnswerRules
    thinking: bool | None
    answer: AnswerParts | None
    finish: str
    usage: Usage | None


def line_of(conversation: Conversation) -> bytes | None:
    """The line with its line feed; None: it can't teach, since the answer is empty or has a form that is not known.

    Raises:
        orjson.JSONEncodeError: nested too deeply to be written.
    """
    messages = told_messages(conversation.body["messages"])
    answer = _answer(conversation)
    if messages is None or answer is None:
        return None
    body, mode = conversation.body, thinking_mode(conversation.body)
    document = {
        "id": conversation.id,
        "started": datetime.fromtimestamp(conversation.started, UTC).isoformat(timespec="milliseconds"),
        "model": conversation.model,
        "arm": conversation.arm,
        "thinking": conversation.thinking if mode is None else mode,
        # With tool_choice none the model isn't told of them.
        "tools": None if conversation.rules.tools is None else body["tools"],
        "messages": [*messages, answer],
        "usage": None if conversation.usage is None else _usage(conversation.usage),
    }
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _answer(conversation: Conversation) -> dict[str, Any] | None:
    """The message with the table of dialect/rules.py applied, as the client got it."""
    given = None if conversation.answer is None else conversation.answer.message()
    if given is None:
        return None
    rules = dataclasses.replace(conversation.rules, new_reasoning=REASONING, old_reasoning=None)
    message, _ = rewrite_message(given, conversation.finish, rules)
    return message if any(message.get(key) for key in ("content", REASONING, "tool_calls")) else None


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
