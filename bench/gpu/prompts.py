"""Token prompts: the packaged held-out chats as one text, cut to the lengths that matter to a verify kernel."""

import json
import random

from tokenizers import Tokenizer

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.tiny.held_out import held_out_prompts

LENGTHS = (1, 2, 15, 16, 17, 40, 63, 64, 65, 127, 163, 350, 700, 1000, 1500, 2047)


def text_prompts(copies: int) -> list[list[int]]:
    """Pieces of text in the packaged model's tokens: each of LENGTHS, `copies` times, at different places."""
    text = "\n".join(json.dumps(chat.messages, ensure_ascii=False) for chat in held_out_prompts())
    ids = Tokenizer.from_file(str(TARGET / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    pieces = []
    for index in range(copies * len(LENGTHS)):
        start = 331 * index % (len(ids) - max(LENGTHS))
        pieces.append(ids[start : start + LENGTHS[index % len(LENGTHS)]])
    return pieces


def random_prompts(count: int, length: int, vocabulary: int) -> list[list[int]]:
    """Random token ids, the same for the same arguments."""
    draw = random.Random(length)
    return [[draw.randrange(vocabulary) for _ in range(length)] for _ in range(count)]
