"""The packaged target's training chats as a source: in the mix of its training, the held-out ones never."""

from collections import Counter
from typing import Any

import pytest

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.corpus import SourceFile, read_corpus
from k25serve.drafters.tiny.held_out import held_out_prompts
from k25serve.drafters.training.data import packaged as module
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.packaged import Packaged


@pytest.fixture(scope="module")
def corpus() -> list[SourceFile]:
    return read_corpus(40)


@pytest.fixture(autouse=True)
def small_corpus(corpus: list[SourceFile], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_corpus", lambda: corpus)


def questions(conversations: list[Any]) -> set[str]:
    return {str(m["content"]) for one in conversations for m in one.messages if m["role"] == "user"}


def drawn(count: int, seed: int) -> list[Conversation]:
    return list(Packaged(count, seed))


def test_mix() -> None:
    """Of the trainings' own shares: 0.50 code and words on code, 0.25 tool, 0.12 talk, 0.10 sums; no images."""
    found = drawn(400, seed=0)
    shares = {label: count / 400 for label, count in Counter(one.label for one in found).items()}
    assert set(shares) == {"code", "prose", "tool", "chat", "math"}
    assert shares["code"] + shares["prose"] == pytest.approx(0.50, abs=0.06)
    assert shares["tool"] == pytest.approx(0.25, abs=0.05)
    assert "<|media_begin|>" not in str([one.messages for one in found if one.label != "chat"])
    assert drawn(400, seed=0) == found
    assert drawn(400, seed=1) != found
    assert Packaged(1, 0).sha256 == Packaged(9, 1).sha256


def test_more_than_one_pass_over_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    real = module.training_chats

    def counted(files: Any, seed: int, limit: int) -> list[Chat]:
        passes.append(seed)
        return real(files, seed, 20)

    monkeypatch.setattr(module, "training_chats", counted)
    assert len(drawn(100, seed=5)) == 100
    assert passes[:2] == [5, 6]


def test_held_out_chats_are_never_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not questions(drawn(400, seed=0)) & questions(held_out_prompts())
    taken = drawn(50, seed=0)[::5]
    monkeypatch.setattr(module, "held_out_prompts", lambda: [Chat("code", one.messages) for one in taken])
    found = drawn(400, seed=0)
    assert len(found) == 400
    assert not questions(found) & questions(taken)


def test_an_interpreter_without_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[SourceFile]:
        raise FileNotFoundError("no Python sources under /x: use an interpreter that ships its standard library")

    monkeypatch.setattr(module, "read_corpus", none)
    with pytest.raises(TrainingError, match="--packaged 3: no Python sources"):
        Packaged(3, 0)
