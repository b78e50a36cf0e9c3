"""Everything that is read or drawn before training: files, chats, tokenizer and encoded data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.corpus import SourceFile, corpus_hash, read_corpus
from k25serve.drafters.tiny.dataset import LENGTHS, LONG, Dataset, Encoder
from k25serve.drafters.tiny.load import load_tokenizer
from k25serve.drafters.tiny.mixture import held_out_chats, training_chats
from k25serve.drafters.tiny.target import CONTEXT_LENGTH
from k25serve.drafters.tiny.tokenizer import save_tokenizer, train_tokenizer

LONG_SHARE = 0.1  # of the raw code is cut at LONG
VARIANTS = 3  # drawings of the chats that training goes round


@dataclass(frozen=True)
class Texts:
    """chats and held_chats as messages; train_* and held_* encoded."""

    corpus_sha256: str
    chats: list[Chat]
    held_chats: list[Chat]
    tokenizer: Tokenizer
    encoder: Encoder
    train_raw: Dataset
    train_chats: Dataset
    held_raw: Dataset
    held: Dataset

    def statistics(self) -> dict[str, int | str]:
        """For provenance: tokens by part."""
        return {
            "corpus_sha256": self.corpus_sha256,
            "train_code_tokens": self.train_raw.tokens,
            "train_chats": len(self.chats),
            "train_chat_tokens": self.train_chats.tokens,
            "train_chat_loss_tokens": self.train_chats.loss_tokens,
            "held_out_code_tokens": self.held_raw.tokens,
            "held_out_chat_tokens": self.held.tokens,
        }


def prepare(folder: Path, seed: int, files: int | None, chats: int | None, tokens_per_step: int) -> Texts:
    """Read the corpus, draw the chats, train the tokenizer into `folder`, encode.

    files, chats: keep only so many files and code chats, for smoke runs. Windows of LONG tokens are cut only where a
    step has room for one.
    """
    corpus = read_corpus(files)
    train, held = [f for f in corpus if not f.held_out], [f for f in corpus if f.held_out]
    drawn = [chat for i in range(VARIANTS) for chat in training_chats(corpus, seed + i, chats)]
    held_chats = held_out_chats(corpus, seed, chats)
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(train_tokenizer(_tokenizer_texts(train, drawn)), folder, CONTEXT_LENGTH)
    fast = load_tokenizer(folder)
    encoder = Encoder(fast)
    raw = encoder.raw(train, LENGTHS[-1], seed)
    if tokens_per_step >= LONG:
        raw.extend(encoder.raw(train[:: round(1 / LONG_SHARE)], LONG, seed))
    return Texts(
        corpus_sha256=corpus_hash(corpus),
        chats=drawn,
        held_chats=held_chats,
        tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
        encoder=encoder,
        train_raw=raw,
        train_chats=encoder.chats(drawn),
        held_raw=encoder.raw(held, LENGTHS[-1], seed),
        held=encoder.chats(held_chats),
    )


def _tokenizer_texts(files: Sequence[SourceFile], chats: Sequence[Chat]) -> list[str]:
    """The files, and the words of the chats that the code does not give."""
    spoken = [str(m.get(key) or "") for c in chats for m in c.messages for key in ("content", "reasoning_content")]
    return [f.text for f in files] + spoken
