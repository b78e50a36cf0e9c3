"""The packaged tiny target's own training chats: a source that needs no download."""

from collections.abc import Iterator

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.corpus import corpus_hash, read_corpus
from k25serve.drafters.tiny.held_out import held_out_prompts
from k25serve.drafters.tiny.mixture import DRAWN, training_chats
from k25serve.drafters.training.data.conversation import Conversation

SPARE = 1.1  # drawn for each that is wanted: images and held-out questions are left out
LABELS = {
    "code": "code",
    "explain": "prose",
    "arguments": "prose",
    "module": "prose",
    "talk": "chat",
    "sum": "math",
    "tool": "tool",
}


class Packaged:
    """`count` chats in the mix of the tiny target's training, without images; those of the held-out file never.

    Raises TrainingError where the interpreter ships no sources of its library, which the chats are made of.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed = count, seed
        try:
            self._corpus = read_corpus()
        except FileNotFoundError as error:
            raise TrainingError(f"--packaged {count}: {error}") from None

    @property
    def sha256(self) -> str:
        """Of the texts that the chats are made of."""
        return corpus_hash(self._corpus)

    def __iter__(self) -> Iterator[Conversation]:
        """Drawn anew with the next seed whenever a pass over the library ends."""
        kept, held, seed = 0, _questions(held_out_prompts()), self._seed
        code = 1 - sum(DRAWN.values())
        wanted = round(self._count * code * SPARE) + 1
        while kept < self._count:
            for chat in training_chats(self._corpus, seed, wanted):
                if chat.kind not in LABELS or held & _questions([chat]):
                    continue
                yield Conversation(chat.messages, chat.tools, LABELS[chat.kind])
                kept += 1
                if kept == self._count:
                    return
            seed += 1


def _questions(chats: list[Chat]) -> set[str]:
    """What users ask in them, words alone."""
    return {" ".join(str(m["content"]).split()) for chat in chats for m in chat.messages if m["role"] == "user"}
