"""The packaged target's training chats told in other words: what a further-trained target is trained on.

Questions, tools and calls stay. What the assistant says changes as between two releases of a model: it thinks in
numbered steps, formats its code otherwise, and says a sentence more.
"""

import ast
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from k25serve.drafters.tiny.chat import Chat, Message
from k25serve.drafters.tiny.corpus import SourceFile
from k25serve.drafters.tiny.mixture import held_out_chats, training_chats

CODE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
SENTENCE = re.compile(r"(?<=[.!?]) +")
PLANS = ("Next I write the answer down.", "With that settled, I answer.", "That is all I need to answer.")
CLOSINGS = ("Ask me if anything is unclear.", "Tell me if you need more.", "Anything else?")


def restyled_chats(files: Sequence[SourceFile], seed: int, limit: int | None = None) -> list[Chat]:
    """`mixture.training_chats` in the other style."""
    return [restyled(chat, random.Random(f"{seed} {i}")) for i, chat in enumerate(training_chats(files, seed, limit))]


def restyled_held_out(files: Sequence[SourceFile], seed: int, limit: int | None = None) -> list[Chat]:
    """`mixture.held_out_chats` in the other style."""
    return [restyled(chat, random.Random(f"{seed} {i}")) for i, chat in enumerate(held_out_chats(files, seed, limit))]


def restyled(chat: Chat, rng: random.Random) -> Chat:
    """Every assistant turn in the other style; `rng` chooses among equal phrases."""
    turns = tuple(_turn(m, rng) if m["role"] == "assistant" else m for m in chat.messages)
    return replace(chat, messages=turns)


def _turn(message: Message, rng: random.Random) -> Message:
    changed: dict[str, Any] = {}
    if message.get("reasoning_content"):
        changed["reasoning_content"] = _steps(str(message["reasoning_content"]), rng)
    if message.get("content"):
        changed["content"] = _answer(str(message["content"]), rng)
    return message | changed


def _steps(reasoning: str, rng: random.Random) -> str:
    """`A. B.` to numbered lines, with a last one that leads on to the answer."""
    said = SENTENCE.split(reasoning)
    return "\n".join(f"Step {i}: {one}" for i, one in enumerate([*said, rng.choice(PLANS)], 1))


def _answer(content: str, rng: random.Random) -> str:
    code = CODE.fullmatch(content)
    if code is None:
        return f"{content}\n\n{rng.choice(CLOSINGS)}"
    text = _reformatted(code[1])
    lines = text.count("\n") + 1
    return f"Here is the code, {lines} lines:\n```python\n{text}\n```\n{rng.choice(CLOSINGS)}"


def _reformatted(code: str) -> str:
    """As the interpreter's own printer writes it: single quotes, no comments; as it is where it is no whole code."""
    try:
        return ast.unparse(ast.parse(code))
    except SyntaxError:
        return code
