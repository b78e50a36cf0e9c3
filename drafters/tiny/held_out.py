"""The held-out chat prompts that acceptance is measured on, as a file, so they don't depend on the interpreter."""

import json
from collections.abc import Sequence
from pathlib import Path

from k25serve.drafters.tiny import MODELS
from k25serve.drafters.tiny.chat import Chat, Message

FILE: Path = MODELS / "held_out" / "chats.json"


def held_out_prompts(path: Path = FILE) -> list[Chat]:
    """Each chat ends with a reference answer; a client sends `chat.prompt`, `.tools`, `.thinking`."""
    return [Chat(c["kind"], tuple(c["messages"]), tuple(c["tools"])) for c in json.loads(path.read_text())]


def write_held_out(chats: Sequence[Chat], path: Path) -> None:
    """Write chats in the form that `held_out_prompts` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"kind": c.kind, "messages": c.messages, "tools": c.tools} for c in chats]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def pick(chats: Sequence[Chat], wanted: dict[str, int]) -> list[Chat]:
    """The first chats of each kind, `wanted[kind]` of them, with prompts that differ.

    Raises ValueError when a kind has too few.
    """
    picked: list[Chat] = []
    for kind, count in wanted.items():
        found: dict[str, Chat] = {}
        for chat in chats:
            if chat.kind == kind:
                found.setdefault(_key(chat.prompt), chat)
        if len(found) < count:
            raise ValueError(
                f"only {len(found)} different held-out chats of kind {kind}, {count} wanted: read more files"
            )
        picked += list(found.values())[:count]
    return picked


def _key(prompt: Sequence[Message]) -> str:
    return json.dumps(prompt, sort_keys=True)
