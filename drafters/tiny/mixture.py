"""The mixture of chats that both trainings see, and the held-out chats."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from k25serve.drafters.tiny.chat import Chat, join, system
from k25serve.drafters.tiny.code_chats import code_chats
from k25serve.drafters.tiny.corpus import SourceFile
from k25serve.drafters.tiny.talk_chats import colour_chat, is_held_out, sum_chat, talk_chat
from k25serve.drafters.tiny.tool_chats import tool_chat
from k25serve.drafters.tiny.vision import IMAGE_TOKENS

THINKING_SHARE = 0.75
SYSTEM_SHARE = 0.2
JOIN_SHARE = 0.15
SYSTEM_PROMPTS = ("You are a helpful assistant.", "You are a helpful coding assistant.", "Answer briefly.")
# Shares of one pass; the code chats are what the corpus gives, the drawn kinds are counted against them.
DRAWN = {"talk": 0.12, "sum": 0.10, "tool": 0.25, "image": 0.03}


def training_chats(files: Sequence[SourceFile], seed: int, limit: int | None = None) -> list[Chat]:
    """Chats from the files that are not held out, and drawn ones; limit: at most so many from code."""
    rng = random.Random(seed)
    pool = _code([f for f in files if not f.held_out], rng, limit)
    chats = pool + _drawn(rng, len(pool), held_out=False)
    rng.shuffle(chats)
    return [_vary(chat, chats, rng) for chat in chats]


def held_out_chats(files: Sequence[SourceFile], seed: int, limit: int | None = None) -> list[Chat]:
    """Chats from the held-out files, and drawn ones whose question never reaches training."""
    rng = random.Random(seed + 1)
    pool = _code([f for f in files if f.held_out], rng, limit)
    return pool + _drawn(rng, len(pool), held_out=True)


def _code(files: Sequence[SourceFile], rng: random.Random, limit: int | None) -> list[Chat]:
    chats = [chat for file in files for chat in code_chats(file, rng)]
    rng.shuffle(chats)
    return chats[:limit]


def _drawn(rng: random.Random, code: int, held_out: bool) -> list[Chat]:
    total = code / (1 - sum(DRAWN.values()))
    makers: dict[str, Callable[[random.Random, bool], Chat]] = {
        "talk": talk_chat,
        "sum": sum_chat,
        "tool": tool_chat,
        "image": lambda drawer, thinking: colour_chat(drawer, thinking, IMAGE_TOKENS),
    }
    chats: list[Chat] = []
    for kind, share in DRAWN.items():
        wanted = len(chats) + max(1, round(total * share))
        while len(chats) < wanted:
            chat = makers[kind](rng, rng.random() < THINKING_SHARE)
            if kind == "image" or is_held_out(str(chat.messages[0]["content"])) == held_out:
                chats.append(chat)
    return chats


def _vary(chat: Chat, pool: Sequence[Chat], rng: random.Random) -> Chat:
    """Sometimes a system prompt, sometimes an earlier short exchange in front."""
    if rng.random() < JOIN_SHARE:
        other = rng.choice(pool)
        if other.kind in ("talk", "sum", "arguments", "explain"):
            chat = join(other, chat)
    if rng.random() < SYSTEM_SHARE:
        chat = replace(chat, messages=(system(rng.choice(SYSTEM_PROMPTS)), *chat.messages))
    return chat
