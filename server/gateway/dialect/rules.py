"""What the gateway changes in an answer, as a table: trigger, change, case. Pure.

An answer without a trigger passes byte for byte (what only the gateway asked for is taken out by strip.py). A trigger
is looked for in a frame's bytes, as engines write JSON: at most one space after a colon.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from k25serve.server.gateway.arms.dialects import REASONING_NAMES, Words
from k25serve.server.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class AnswerRewrite:
    """`words`: bytes of which one has to be in a frame before it is looked at."""

    name: str
    trigger: str
    effect: str
    case: str
    words: tuple[bytes, ...]


_FINISH = (b'"finish_reason":"', b'"finish_reason": "')
_USAGE = (b'"usage":{', b'"usage": {')
_MARKER = (b"<", b"\\u003c", b'"tool_calls":[{', b'"tool_calls": [{')

REASONING_NAME = AnswerRewrite(
    "reasoning_name",
    "thoughts under another name than reasoning_field",
    "that name; the text is not touched",
    "A04",
    (),
)
TOOL_MARKUP = AnswerRewrite(
    "tool_markup",
    "Kimi's tool-call markers in content or in thoughts, for a request with tools",
    "tool_calls in their place, with canonical ids; finish_reason stop becomes tool_calls; an open marker is held back",
    "A01, A03",
    _MARKER,
)
TOOL_ID = AnswerRewrite(
    "tool_id",
    "a tool call whose id is functions_NAME_N, NAME being its own function",
    "functions.NAME:N",
    "A02",
    (b'"functions_',),
)
FINISH_ONCE = AnswerRewrite(
    "finish_once",
    "anything for a choice after its finish_reason; several choices, one of them without any before [DONE]",
    "left out; the missing one is tool_calls after a tool call, else stop",
    "A10",
    _FINISH,
)
USAGE_ALONE = AnswerRewrite(
    "usage_alone",
    "usage beside choices, or a second time, unless the client asked for continuous_usage_stats",
    "one frame with choices [], before [DONE]",
    "A09",
    _USAGE,
)
ABORTED = AnswerRewrite(
    "aborted",
    "finish_reason abort: the engine gave the request up",
    "an error: in a stream an error frame, else 502",
    "vLLM issue 57082",
    _FINISH,
)
ANSWER_REWRITES = (REASONING_NAME, TOOL_MARKUP, TOOL_ID, FINISH_ONCE, USAGE_ALONE, ABORTED)


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """The table for one request.

    `old_reasoning`, `new_reasoning`: names of the thoughts, before and after; None if they are the same.
    `tools`: the function names that the request declares; None: no tool calls are wanted.
    `wants_usage`: the client asked for the usage frame. `continuous_usage`: and for usage in every frame.
    `choices`: how many a chat stream has, if several; else 0.
    """

    new_reasoning: str
    old_reasoning: str | None = None
    tools: frozenset[str] | None = None
    wants_usage: bool = True
    continuous_usage: bool = False
    choices: int = 0

    @property
    def words(self) -> tuple[bytes, ...]:
        """Bytes of which one has to be in a frame before it is looked at."""
        found: tuple[bytes, ...] = _FINISH + _USAGE
        if self.tools is not None:
            found += TOOL_MARKUP.words + TOOL_ID.words
        elif self.choices:
            found += _MARKER[2:]
        return found


def answer_rules(body: dict[str, Any], words: Words, settings: GatewaySettings) -> AnswerRules:
    """The rules for a checked body that is sent to an arm of this dialect."""
    new = settings.reasoning_field
    old = next(name for name in REASONING_NAMES if name != new)
    options = body.get("stream_options") or {}
    wants_usage = options.get("include_usage") is True
    choices = body.get("n") or 1
    chat = "messages" in body
    return AnswerRules(
        new_reasoning=new,
        # An unknown dialect may use either name.
        old_reasoning=old if words.reasoning in (old, None) and chat else None,
        tools=frozenset(_names(body)) if chat and body.get("tools") and body.get("tool_choice") != "none" else None,
        wants_usage=wants_usage,
        continuous_usage=wants_usage and options.get("continuous_usage_stats") is True,
        choices=choices if choices > 1 and chat else 0,
    )


def _names(body: dict[str, Any]) -> Iterator[str]:
    for tool in body["tools"]:
        yield tool["function"]["name"]
