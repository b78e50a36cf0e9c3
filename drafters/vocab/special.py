"""The tokens that a Kimi answer is made of and that a reduced draft vocabulary must not lose. Pure.

A token outside the draft vocabulary is never drafted: the verify step that meets it stops there. It costs speed only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

THINK_END = "</think>"
TURN_END = "<|im_end|>"
# In answers with tools, and where the prompt leaves opening the think block to the model.
SOMETIMES = (
    "<think>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
)


@dataclass(frozen=True)
class Wanted:
    """Ids by text: `always` occur in nearly every answer, `sometimes` in some."""

    always: dict[str, int]
    sometimes: dict[str, int]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*self.always.values(), *self.sometimes.values())))

    def missing(self, hot_ids: Iterable[int]) -> "Wanted":
        """Those that are not among `hot_ids`."""
        hot = frozenset(hot_ids)
        return Wanted(
            {text: token for text, token in self.always.items() if token not in hot},
            {text: token for text, token in self.sometimes.items() if token not in hot},
        )


def wanted_tokens(special: Mapping[str, int], ends: Iterable[int]) -> Wanted:
    """What the target's own tables hold of Kimi's markers; `ends` are its end ids, named where the tables name them."""
    names = {token: text for text, token in special.items()}
    always = {names.get(token, f"end token {token}"): token for token in ends}
    always |= {text: special[text] for text in (TURN_END, THINK_END) if text in special}
    return Wanted(always, {text: special[text] for text in SOMETIMES if text in special})
