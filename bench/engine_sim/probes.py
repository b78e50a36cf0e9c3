"""What a right answer looks like, as functions that a probe of a live engine asks. Pure.

Each gives the faults found, in words; none means that the answer is right.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

Finish = Literal["stop", "length"]


def stopped_output(output_ids: Sequence[int], stop_id: int, max_tokens: int) -> tuple[list[int], Finish]:
    """The reference for a step that holds both a stop and the token limit: a stop inside the limit wins.

    Returns the tokens that belong to the answer, the stop left out, and its finish reason.
    """
    within = list(output_ids[:max_tokens])
    if stop_id in within:
        return within[: within.index(stop_id)], "stop"
    return within, "length"


def stop_faults(text: str, finish_reason: str | None, completion_tokens: int, stop: str, max_tokens: int) -> list[str]:
    """Checks one reply to a request with a stop string and a token limit."""
    faults = []
    if stop in text:
        faults.append(f"the text holds the stop string {stop!r} and {len(text) - text.index(stop) - len(stop)} more")
    if finish_reason not in ("stop", "length"):
        faults.append(f"finish_reason is {finish_reason!r}")
    if completion_tokens > max_tokens:
        faults.append(f"{completion_tokens} completion tokens, {max_tokens} were allowed")
    if finish_reason == "length" and completion_tokens != max_tokens:
        faults.append(f"finish_reason is length at {completion_tokens} of {max_tokens} tokens")
    return faults


def text_faults(streamed: str, whole: str) -> list[str]:
    """Compares the two replies to one greedy prompt: only a stream can cut a character."""
    if "�" in streamed and "�" not in whole:
        return ["the stream holds U+FFFD, the whole answer does not"]
    return []


def schema_faults(message: dict[str, Any], is_valid: Callable[[Any], bool], *, thinking: bool) -> list[str]:
    """Checks the message of a reply to a request with a JSON schema."""
    faults = []
    content = message.get("content")
    if not content:
        return ["content is empty"]
    try:
        if not is_valid(json.loads(content)):
            faults.append("content does not fit the schema")
    except json.JSONDecodeError as error:
        faults.append(f"content is not JSON: {error}")
    if not thinking and (message.get("reasoning_content") or message.get("reasoning")):
        faults.append("there are thoughts, though thinking is off")
    return faults
