"""Texts to batches of token ids with a loss mask, in fixed lengths, so that every document starts at position 0."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedTokenizerFast

from k25serve.drafters.tiny import special_tokens as st
from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.corpus import SourceFile

# A chat is padded to the first that holds it; raw code fills the last.
LENGTHS = (64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 1024)
LONG = 4096  # a share of raw code is cut this long, so that every position up to the context length is trained


@dataclass(frozen=True)
class Batch:
    """ids [rows, length] int64; loss [rows, length] bool: whether the token at this place is to be predicted."""

    ids: torch.Tensor
    loss: torch.Tensor


@dataclass
class Dataset:
    """Encoded documents by length."""

    pad: int
    rows: dict[int, list[tuple[list[int], list[bool]]]] = field(default_factory=dict)

    def add(self, ids: list[int], loss: list[bool], length: int) -> None:
        self.rows.setdefault(length, []).append((ids, loss))

    @property
    def tokens(self) -> int:
        return sum(len(ids) for rows in self.rows.values() for ids, _ in rows)

    @property
    def loss_tokens(self) -> int:
        return sum(sum(loss) for rows in self.rows.values() for _, loss in rows)

    def extend(self, other: "Dataset") -> None:
        for length, rows in other.rows.items():
            self.rows.setdefault(length, []).extend(rows)

    def batches(self, tokens_per_batch: int, seed: int) -> Iterator[Batch]:
        """One pass in random order; every batch holds rows of one length, at most `tokens_per_batch` places."""
        rng = random.Random(seed)
        plan: list[tuple[int, list[int]]] = []
        for length, rows in sorted(self.rows.items()):
            order = list(range(len(rows)))
            rng.shuffle(order)
            size = max(1, tokens_per_batch // length)
            plan += [(length, order[i : i + size]) for i in range(0, len(order), size)]
        rng.shuffle(plan)
        for length, picked in plan:
            yield self._batch(length, [self.rows[length][i] for i in picked])

    def _batch(self, length: int, rows: Sequence[tuple[list[int], list[bool]]]) -> Batch:
        ids = torch.full((len(rows), length), self.pad, dtype=torch.int64)
        loss = torch.zeros((len(rows), length), dtype=torch.bool)
        for i, (row, mask) in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            loss[i, : len(row)] = torch.tensor(mask)
        return Batch(ids, loss)


class Encoder:
    """Turns chats and files into token ids with the model's own tokenizer and template."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self.bos, self.eos, self.pad, self.end, self.opener, self.middle, self.think, self.think_end = (
            tokenizer.convert_tokens_to_ids(t)
            for t in (st.BOS, st.EOS, st.PAD, st.IM_END, st.IM_ASSISTANT, st.IM_MIDDLE, st.THINK, st.THINK_END)
        )

    def render(self, chat: Chat) -> str:
        text = self.tokenizer.apply_chat_template(list(chat.messages), tools=list(chat.tools) or None, tokenize=False)
        return str(text)

    def prompt_ids(self, chat: Chat) -> list[int]:
        """The ids a server would send to the model to get the last assistant turn."""
        text = self.tokenizer.apply_chat_template(
            list(chat.prompt),
            tools=list(chat.tools) or None,
            tokenize=False,
            add_generation_prompt=True,
            thinking=chat.thinking,
        )
        return list(self.tokenizer.encode(str(text), add_special_tokens=False))

    def assistant_mask(self, ids: Sequence[int]) -> list[bool]:
        """True for what the assistant writes: after the generation prompt, whose end is `<think>` or `<think></think>`,
        up to and with `<|im_end|>`."""
        mask = [False] * len(ids)
        i = 0
        while i < len(ids):
            if ids[i] != self.opener:
                i += 1
                continue
            while i < len(ids) and ids[i] != self.think:
                i += 1
            i += 2 if i + 1 < len(ids) and ids[i + 1] == self.think_end else 1
            while i < len(ids):
                mask[i] = True
                if ids[i] == self.end:
                    break
                i += 1
        return mask

    def chats(self, chats: Sequence[Chat]) -> Dataset:
        """Chats longer than the last of LENGTHS are left out."""
        data = Dataset(self.pad)
        for ids in self._encode([self.render(chat) for chat in chats]):
            length = next((n for n in LENGTHS if len(ids) <= n), None)
            if length is not None:
                data.add(list(ids), self.assistant_mask(ids), length)
        return data

    def raw(self, files: Sequence[SourceFile], length: int, seed: int) -> Dataset:
        """Files joined in random order as `[BOS] text [EOS]`, cut to windows of `length`; every token counts."""
        order = list(files)
        random.Random(seed).shuffle(order)
        stream: list[int] = []
        for ids in self._encode([f.text for f in order]):
            stream += [self.bos, *ids, self.eos]
        data = Dataset(self.pad)
        for start in range(0, len(stream), length):
            row = stream[start : start + length]
            data.add(row, [True] * len(row), length)
        return data

    def _encode(self, texts: list[str]) -> list[list[int]]:
        """verbose=False: no warning about files above the context length, which are cut afterwards."""
        if not texts:
            return []
        return list(self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"])
