"""ShareGPT's format: {conversations: [{from, value}]}."""

from typing import Any

from k25serve.drafters.training.data import checked
from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import Conversation, Message

ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
}


def read_sharegpt(row: dict[str, Any]) -> Conversation:
    """Raises BadRow with the field that is wrong."""
    turns = checked.rows_of(row.get("conversations"), "conversations")
    messages = tuple(_message(turn, f"conversations[{place}]") for place, turn in enumerate(turns))
    source = row.get("source")
    return Conversation(messages, source=source if isinstance(source, str) else "")


def _message(turn: dict[str, Any], field: str) -> Message:
    said_by = turn.get("from")
    if not isinstance(said_by, str) or said_by not in ROLES:
        raise BadRow("from", f"{field}.from", said_by, f"it must be one of {', '.join(ROLES)}")
    role = ROLES[said_by]
    message: Message = {"role": role, "content": checked.text(turn.get("value"), f"{field}.value")}
    return checked.split_reasoning(message) if role == "assistant" else message
