"""Corpus, chats and their encoding."""

import json
import random
from collections import Counter

import pytest

from k25serve.drafters.tiny.chat import Chat, assistant, user
from k25serve.drafters.tiny.code_chats import code_chats
from k25serve.drafters.tiny.corpus import SourceFile, corpus_hash, read_corpus
from k25serve.drafters.tiny.dataset import Encoder
from k25serve.drafters.tiny.mixture import held_out_chats, training_chats
from k25serve.drafters.tiny.tool_chats import tool_chat

SOURCE = '''"""Small things.

More words.
"""


class A:
    async def area(self, width, *sides, unit="m", **rest):
        """Multiply the sides.

        Details.
        """
        return width


def nothing(): pass
'''


def test_corpus_is_ordered_split_and_free_of_tests() -> None:
    files = read_corpus(60)
    assert [f.name for f in files] == sorted(f.name for f in files)
    assert len(files) == 60
    assert not any("test" in f.name.split("/")[:-1] for f in files)
    assert corpus_hash(files) == corpus_hash(read_corpus(60)) != corpus_hash(files[1:])
    held = [f.name for f in read_corpus() if f.held_out]
    assert "traceback.py" in held
    assert 5 < len(held) < 40


def test_module_names() -> None:
    assert SourceFile("json/__init__.py", "").module == "json"
    assert SourceFile("json/decoder.py", "").module == "json.decoder"


def test_code_chats_are_read_off_the_tree() -> None:
    chats = list(code_chats(SourceFile("shapes.py", SOURCE), random.Random(3)))
    asked = {chat.messages[0]["content"]: chat.messages[1]["content"] for chat in chats}
    assert asked["What does the module `shapes` do?"] == "Small things."
    question = "Write a Python function `area(self, width, *sides, unit='m', **rest)`: Multiply the sides."
    answer = asked[question]
    assert answer.startswith('```python\nasync def area(self, width, *sides, unit="m", **rest):\n    """Multiply')
    assert answer.endswith("\n    return width\n```")
    reasonings = [chat.messages[1]["reasoning_content"] for chat in chats if chat.kind == "code"]
    assert reasonings == [
        "The user wants a function `area`. It takes 5 arguments: `self`, `width`, `sides`, `unit` and `rest`. "
        "Its purpose: Multiply the sides. It returns a value."
    ], "the one-liner `nothing` gives no chat"


def test_files_of_another_syntax_give_no_chats() -> None:
    assert list(code_chats(SourceFile("old.py", "print 'hello'"), random.Random(0))) == []


def test_tool_chats_keep_the_protocol() -> None:
    rng, seen = random.Random(0), Counter[int]()
    for _ in range(300):
        chat = tool_chat(rng, thinking=True)
        names = [tool["function"]["name"] for tool in chat.tools]
        assert len(names) == len(set(names))
        made = [call for m in chat.messages for call in m.get("tool_calls", [])]
        returned = [m["tool_call_id"] for m in chat.messages if m["role"] == "tool"]
        ids = [call["id"] for call in made]
        assert ids == [f"functions.{call['function']['name']}:{i}" for i, call in enumerate(made)]
        assert returned == ids[: len(returned)]
        assert chat.messages[-1]["role"] == "assistant"
        seen[len(made)] += 1
    assert seen.keys() == {0, 1, 2, 3}


def test_mixture_keeps_the_held_out_apart() -> None:
    files = read_corpus(80)
    train, held = training_chats(files, 0), held_out_chats(files, 0)
    asked = {json.dumps(chat.messages[-2]) for chat in train if chat.kind in ("sum", "talk")}
    assert not asked & {json.dumps(chat.messages[-2]) for chat in held if chat.kind in ("sum", "talk")}
    kinds = Counter(chat.kind for chat in train)
    assert kinds.keys() == {"code", "explain", "arguments", "module", "talk", "sum", "tool", "image"}
    assert 0.2 < kinds["tool"] / len(train) < 0.3
    thinking = sum(chat.thinking for chat in train) / len(train)
    assert 0.65 < thinking < 0.85


@pytest.mark.parametrize(("reasoning", "unseen"), [("Greet.", "<think>"), ("", "<think></think>")])
def test_loss_counts_what_the_assistant_writes(encoder: Encoder, reasoning: str, unseen: str) -> None:
    chat = Chat("talk", (user("Hi"), assistant("Hello", reasoning), user("Bye"), assistant("Bye", reasoning)))
    ids = encoder.tokenizer.encode(encoder.render(chat))
    counted = [token for token, counts in zip(ids, encoder.assistant_mask(ids), strict=True) if counts]
    turn = "Greet.</think>" if reasoning else ""
    assert encoder.tokenizer.decode(counted) == f"{turn}Hello<|im_end|>{turn}Bye<|im_end|>"
    prompt = encoder.tokenizer.decode(encoder.prompt_ids(chat))
    assert prompt.endswith(f"<|im_user|>user<|im_middle|>Bye<|im_end|><|im_assistant|>assistant<|im_middle|>{unseen}")


def test_batches_cover_every_row_once(encoder: Encoder) -> None:
    chats = [tool_chat(random.Random(i), thinking=True) for i in range(40)]
    data = encoder.chats(chats)
    batches = list(data.batches(1024, seed=1))
    assert sum(len(batch.ids) for batch in batches) == 40
    assert all(batch.ids.numel() <= 1024 for batch in batches)
    assert sum(int(batch.loss.sum()) for batch in batches) == data.loss_tokens
    assert sum(int((batch.ids != data.pad).sum()) for batch in batches) == data.tokens
    again, other = list(data.batches(1024, seed=1)), list(data.batches(1024, seed=2))
    assert [b.ids.tolist() for b in again] == [b.ids.tolist() for b in batches] != [b.ids.tolist() for b in other]
