"""What the gateway changes in a request, as a table: trigger, change, case. Pure.

Without a trigger the body passes byte for byte, but for the fields that the gateway needs itself (rewrite.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from k25serve.server.gateway.arms.dialects import Words
from k25serve.server.gateway.dialect import messages as history
from k25serve.server.gateway.dialect.thinking import THINKING_FIELDS, thinking_fields
from k25serve.server.gateway.settings import GatewaySettings

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestRewrite:
    """`change` gives the fields to set in a checked body; none without the trigger."""

    name: str
    trigger: str
    effect: str
    case: str
    change: Callable[[Fields, Words, GatewaySettings], Fields]


def _messages(change: Callable[[history.Messages, Words], history.Messages]) -> Callable[..., Fields]:
    def fields(body: Fields, words: Words, _: GatewaySettings) -> Fields:
        before = body.get("messages")
        if not isinstance(before, list):
            return {}
        after = change(before, words)
        return {} if after is before else {"messages": after}

    return fields


def _completion_limit(body: Fields, _: Words, __: GatewaySettings) -> Fields:
    limit = body.get("max_completion_tokens")
    return {} if limit is None or "messages" in body else {"max_tokens": limit}


def _thinking(body: Fields, _: Words, settings: GatewaySettings) -> Fields:
    return thinking_fields(body, settings.thinking) if "messages" in body else {}


REQUEST_REWRITES = (
    RequestRewrite(
        "developer_role",
        "a message of role developer, for an arm whose template has none",
        "role system; those at the start are joined into the leading system message",
        "A08",
        _messages(lambda given, words: given if words.developer else history.merge_developer(given)),
    ),
    RequestRewrite(
        "text_parts",
        "a message whose content is a list of text parts only",
        "their text, joined without anything between",
        "A06",
        _messages(lambda given, _: history.flatten_text(given)),
    ),
    RequestRewrite(
        "history_reasoning",
        "an assistant message with thoughts under the name that the arm doesn't read",
        "the arm's name",
        "A04",
        _messages(lambda given, words: history.name_reasoning(given, words.reasoning)),
    ),
    RequestRewrite(
        "history_tool_ids",
        "a tool call whose id is functions_NAME_N, NAME being its own function",
        "functions.NAME:N, in the call and in the tool message that answers it",
        "A02",
        _messages(lambda given, words: given if words.developer else history.canonical_ids(given)),
    ),
    RequestRewrite(
        "completion_limit",
        "max_completion_tokens for /v1/completions, which engines don't read there",
        "max_tokens gets its value",
        "A13",
        _completion_limit,
    ),
    RequestRewrite(
        "thinking",
        "a form of thinking on or off other than the template's; or a default of the profile for what is left out",
        "chat_template_kwargs.thinking, and the mode's sampling defaults",
        "A14",
        _thinking,
    ),
)


def rewritten_fields(body: Fields, words: Words, settings: GatewaySettings) -> Fields:
    """The fields that change for this arm, each with its new value.

    Raises:
        InvalidRequestError: forms of thinking that disagree.
    """
    if _has_no_trigger(body, settings):
        return {}
    changed: Fields = {}
    for rewrite in REQUEST_REWRITES:
        changed |= rewrite.change(body | changed if changed else body, words, settings)
    return changed


def _has_no_trigger(body: Fields, settings: GatewaySettings) -> bool:
    """A quicker look than the table's, for the commonest chat request; False: the table has to look."""
    messages = body.get("messages")
    return (
        isinstance(messages, list)
        and not settings.thinking.has_defaults
        and body.keys().isdisjoint(THINKING_FIELDS)
        and history.are_plain(messages)
    )
