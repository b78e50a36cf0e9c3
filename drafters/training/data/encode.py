"""Turns to rows of token ids with the loss mask. Prompt and answer are tokenized apart, as engine and model do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.options import Thinking
from k25serve.drafters.training.data.turns import Turn, TurnRenderer


@dataclass
class Row:
    """input_ids [n]; loss_mask [n]: 1 where the assistant wrote the token."""

    input_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)


@dataclass
class Encoded:
    """One conversation's rows, and what is to be counted of it: thinking turns, lost reasoning, why nothing came."""

    rows: list[Row]
    counts: Counter[str]
    dropped: str = ""
    fault: BadRow | None = None


class Encoder:
    """tokenizer: the target's; ends: ids that end an answer; max_length in tokens."""

    def __init__(self, tokenizer: Any, ends: frozenset[int], thinking: Thinking, max_length: int) -> None:
        self._tokenizer, self._ends, self._max_length = tokenizer, ends, max_length
        self._renderer = TurnRenderer(tokenizer, thinking)

    def encode(self, conversations: Sequence[Conversation]) -> list[Encoded]:
        """In the given order; all texts go through the tokenizer together."""
        rendered: list[list[Turn] | BadRow] = [self._turns(conversation) for conversation in conversations]
        texts = [text for turns in rendered if isinstance(turns, list) for t in turns for text in (t.prompt, t.written)]
        # verbose: no warning about texts above the model's length, which are cut afterwards.
        ids = iter(self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else ())
        return [self._encoded(turns, ids) for turns in rendered]

    def _turns(self, conversation: Conversation) -> list[Turn] | BadRow:
        try:
            return list(self._renderer.turns(conversation))
        except BadRow as error:
            return error

    def _encoded(self, turns: list[Turn] | BadRow, ids: Any) -> Encoded:
        if isinstance(turns, BadRow):
            return Encoded([], Counter(), fault=turns)
        rows: list[Row] = []
        counts: Counter[str] = Counter()
        for turn in turns:
            prompt, written = list(next(ids)), self._until_end(list(next(ids)))
            counts["turns_thinking" if turn.thinking else "turns_without_thinking"] += 1
            counts["reasoning_lost"] += turn.reasoning_lost
            # A turn shares the row of the one before where the engine would be sent the same ids.
            if not rows or prompt[: len(rows[-1].input_ids)] != rows[-1].input_ids:
                rows.append(Row())
            row = rows[-1]
            told = len(prompt) - len(row.input_ids)
            row.input_ids += prompt[len(row.input_ids) :] + written
            row.loss_mask += [0] * told + [1] * len(written)
        for row in rows:
            counts["rows_truncated"] += len(row.input_ids) > self._max_length
            del row.input_ids[self._max_length :], row.loss_mask[self._max_length :]
        supervised = [row for row in rows if any(row.loss_mask)]
        counts["rows_too_long"] += len(rows) - len(supervised)
        why = "" if supervised else "answers beyond max_length" if rows else "nothing to supervise"
        return Encoded(supervised, counts, why)

    def _until_end(self, written: list[int]) -> list[int]:
        """Without what a template puts behind the token that ends the turn."""
        last = next((place for place in reversed(range(len(written))) if written[place] in self._ends), None)
        return written if last is None else written[: last + 1]
