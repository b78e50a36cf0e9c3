"""OpenAI's chat format: {messages: [...], tools?, label?, source?}, as requests, fine-tuning files and logs have it.

`weight: 0` at an assistant's message, as in fine-tuning files and the gateway's conversation log: it is not learnt.
"""

from typing import Any

from k25serve.drafters.training.data import checked
from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import REASONING, WEIGHT, Conversation, Message

ROLES = ("system", "developer", "user", "assistant", "tool")
REASONING_KEYS = (REASONING, "reasoning", "thinking")


def read_openai(row: dict[str, Any]) -> Conversation:
    """Raises BadRow with the field that is wrong."""
    messages = [_message(m, f"messages[{i}]") for i, m in enumerate(checked.rows_of(row.get("messages"), "messages"))]
    return Conversation(
        tuple(messages),
        checked.tools(row.get("tools"), "tools"),
        checked.text(row.get("label"), "label"),
        checked.text(row.get("source"), "source"),
    )


def _message(given: dict[str, Any], field: str) -> Message:
    role = given.get("role")
    if role not in ROLES:
        raise BadRow("role", f"{field}.role", role, f"it must be one of {', '.join(ROLES)}")
    message: Message = {"role": role, "content": checked.content(given.get("content"), f"{field}.content")}
    if given.get("name"):
        message["name"] = checked.text(given["name"], f"{field}.name")
    if role == "tool":
        message["tool_call_id"] = checked.text(given.get("tool_call_id"), f"{field}.tool_call_id")
    if role != "assistant":
        return message
    if given.get("function_call"):
        raise BadRow("function_call", f"{field}.function_call", given["function_call"], "write it as tool_calls")
    reasoning = next((given[key] for key in REASONING_KEYS if given.get(key)), None)
    if reasoning is not None:
        message[REASONING] = checked.text(reasoning, f"{field}.{REASONING}")
    if given.get("tool_calls"):
        message["tool_calls"] = checked.tool_calls(given["tool_calls"], f"{field}.tool_calls")
    weight = given.get(WEIGHT)
    if weight not in (None, 0, 1):
        raise BadRow("weight", f"{field}.{WEIGHT}", weight, "it must be 0 (not learnt) or 1")
    if weight == 0:
        message[WEIGHT] = 0
    return checked.split_reasoning(message)
