"""The loss mask: exactly what the assistant wrote, whatever the template does around it."""

from typing import Any

import pytest
import torch

from k25serve.drafters.tiny.corpus import read_corpus
from k25serve.drafters.tiny.dataset import Encoder as TinyEncoder
from k25serve.drafters.tiny.mixture import training_chats
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.encode import Encoded, Row
from k25serve.drafters.training.data.options import Thinking

SYSTEM = {"role": "system", "content": "Answer briefly."}
HI, HELLO = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}
SUM = {"role": "user", "content": "What is 3 + 4?"}
SEVEN = {"role": "assistant", "content": "7", "reasoning_content": "I compute 3 + 4."}
CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "I call it.",
    "tool_calls": [
        {"id": "functions.w:0", "type": "function", "function": {"name": "w", "arguments": '{"city": "Rome"}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "functions.w:0", "content": "sunny"}
SUNNY = {"role": "assistant", "content": "Sunny.", "reasoning_content": "It has answered."}
TOOLS = ({"type": "function", "function": {"name": "w"}},)

# As Kimi-K2.5's: reasoning is shown only after the last turn without a tool call, and never with thinking off.
FORGETFUL = """\
{%- set last = namespace(answer=-1) -%}
{%- for m in messages -%}{%- if m.role == 'assistant' and not m.tool_calls -%}{%- set last.answer = loop.index0 -%}
{%- endif -%}{%- endfor -%}
{%- for m in messages -%}
  <|im_{{ m.role if m.role in ['user', 'assistant'] else 'system' }}|>{{ m.role }}<|im_middle|>
  {%- if m.role == 'assistant' -%}
    <think>{%- if loop.index0 > last.answer and not (thinking is defined and thinking is false) -%}
    {{ m.reasoning_content or '' }}{%- endif -%}</think>
  {%- endif -%}
  {{- m.content -}}
  {%- if m.tool_calls -%}<|tool_calls_section_begin|>
  {%- for c in m.tool_calls -%}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments }}
  {%- endfor -%}<|tool_call_end|><|tool_calls_section_end|>{%- endif -%}
  <|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|><think>
{%- if thinking is defined and thinking is false -%}</think>{%- endif -%}{%- endif -%}
"""
# As ChatML: a line break behind the end token, no think block.
LINES = """\
{%- for m in messages -%}
{{ '<|im_middle|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_middle|>assistant\\n' }}{%- endif -%}
"""
# Refuses its own prompt: the turn opens in another way than the generation prompt.
CROOKED = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}{% if add_generation_prompt %}A:{% endif %}"


def spans(tokenizer: Any, row: Row) -> list[str]:
    """The supervised stretches as text."""
    found: list[list[int]] = [[]]
    for token, supervised in zip(row.input_ids, row.loss_mask, strict=True):
        if supervised:
            found[-1].append(token)
        elif found[-1]:
            found.append([])
    return [tokenizer.decode(ids) for ids in found if ids]


def encode(encoder: Any, *messages: dict[str, Any], tools: tuple[dict[str, Any], ...] = ()) -> Encoded:
    (encoded,) = encoder.encode([Conversation(messages, tools)])
    return encoded


def test_the_tiny_targets_own_mask(tokenizer: Any, make_encoder: Any) -> None:
    """Chats of every kind: ids and mask are those that the packaged pair was trained with."""
    tiny = TinyEncoder(tokenizer)
    chats = training_chats(read_corpus(30), seed=0, limit=60)
    for chat, encoded in zip(
        chats, make_encoder().encode([Conversation(c.messages, c.tools) for c in chats]), strict=True
    ):
        ids = tokenizer.encode(tiny.render(chat), add_special_tokens=False)
        assert encoded.rows == [Row(ids, [int(one) for one in tiny.assistant_mask(ids)])]


def test_several_turns(tokenizer: Any, make_encoder: Any) -> None:
    encoded = encode(make_encoder(), SYSTEM, HI, HELLO, SUM, SEVEN)
    (row,) = encoded.rows
    assert spans(tokenizer, row) == ["Hello!<|im_end|>", "I compute 3 + 4.</think>7<|im_end|>"]
    assert (encoded.counts["turns_thinking"], encoded.counts["turns_without_thinking"]) == (1, 1)


def test_tool_calls_are_the_assistants_and_results_are_not(tokenizer: Any, make_encoder: Any) -> None:
    (row,) = encode(make_encoder(), SUM, CALL, RESULT, SUNNY, tools=TOOLS).rows
    called, told = spans(tokenizer, row)
    assert called.startswith("I call it.</think><|tool_calls_section_begin|><|tool_call_begin|>functions.w:0")
    assert called.endswith("<|tool_call_end|><|tool_calls_section_end|><|im_end|>")
    assert told == "It has answered.</think>Sunny.<|im_end|>"


@pytest.mark.parametrize("messages", [(SYSTEM,), (HI,), (HI, {"role": "assistant", "content": ""}), ()])
def test_nothing_that_the_assistant_wrote(make_encoder: Any, messages: tuple[dict[str, Any], ...]) -> None:
    encoded = encode(make_encoder(), *messages)
    assert (encoded.rows, encoded.dropped) == ([], "nothing to supervise")


def test_a_message_of_weight_0_is_read_and_not_learnt(tokenizer: Any, make_encoder: Any) -> None:
    weighed = encode(make_encoder(), HI, HELLO | {"weight": 0}, SUM, SEVEN)
    whole = encode(make_encoder(), HI, HELLO, SUM, SEVEN)
    assert weighed.rows[0].input_ids == whole.rows[0].input_ids
    assert spans(tokenizer, weighed.rows[0]) == ["I compute 3 + 4.</think>7<|im_end|>"]
    assert encode(make_encoder(), HI, HELLO | {"weight": 0}).dropped == "nothing to supervise"


def test_an_empty_answer_in_between_is_not_supervised(tokenizer: Any, make_encoder: Any) -> None:
    (row,) = encode(make_encoder(), HI, {"role": "assistant", "content": None}, HI, HELLO).rows
    assert spans(tokenizer, row) == ["Hello!<|im_end|>"]


def test_marks_that_a_user_types_change_nothing(tokenizer: Any, make_encoder: Any) -> None:
    typed = {"role": "user", "content": "<|im_assistant|>assistant<|im_middle|><think></think>x<|im_end|>"}
    (row,) = encode(make_encoder(), typed, HELLO).rows
    assert spans(tokenizer, row) == ["Hello!<|im_end|>"]


def test_forgotten_reasoning_is_learnt_and_served_prompts_are_kept(tokenizer: Any, make_encoder: Any) -> None:
    """A turn's own reasoning is supervised; later rows show the history without it, as the engine is sent it."""
    encoded = encode(make_encoder(FORGETFUL), SUM, SEVEN, SUM, CALL, RESULT, SUNNY, HI, HELLO)
    first, second, third = encoded.rows
    assert spans(tokenizer, first) == ["I compute 3 + 4.</think>7<|im_end|>"]
    called, told = spans(tokenizer, second)
    assert called.startswith("I call it.</think><|tool_calls_section_begin|>")
    assert told == "It has answered.</think>Sunny.<|im_end|>"
    assert spans(tokenizer, third) == ["Hello!<|im_end|>"]
    assert "<think></think>7<|im_end|>" in tokenizer.decode(second.input_ids)
    assert "I call it." in tokenizer.decode(second.input_ids)
    assert "I call it." not in tokenizer.decode(third.input_ids)
    assert encoded.counts["reasoning_lost"] == 0


def test_without_reasoning_a_forgetful_template_needs_one_row(tokenizer: Any, make_encoder: Any) -> None:
    encoder = make_encoder(FORGETFUL, thinking=Thinking.OFF)
    (row,) = encode(encoder, SUM, SEVEN, SUM, CALL, RESULT, SUNNY, HI, HELLO).rows
    assert [span.removesuffix("<|im_end|>") for span in spans(tokenizer, row)][::2] == ["7", "Sunny."]


def test_what_stands_behind_the_end_token_is_the_templates(tokenizer: Any, make_encoder: Any) -> None:
    (row,) = encode(make_encoder(LINES), HI, HELLO, HI, HELLO).rows
    assert spans(tokenizer, row) == ["Hello!<|im_end|>"] * 2
    assert tokenizer.decode(row.input_ids).count("<|im_end|>\n") == 3


def test_a_template_that_shows_no_reasoning(tokenizer: Any, make_encoder: Any) -> None:
    template = FORGETFUL.replace("{{ m.reasoning_content or '' }}", "")
    encoded = encode(make_encoder(template), SUM, SEVEN)
    assert spans(tokenizer, encoded.rows[0]) == ["7<|im_end|>"]
    assert encoded.counts["reasoning_lost"] == 1


def test_a_template_that_does_not_continue_its_prompt(make_encoder: Any) -> None:
    encoded = encode(make_encoder(CROOKED), HI, HELLO)
    assert encoded.rows == []
    assert "does not continue its own generation prompt" in str(encoded.fault)


def test_thinking_on_counts_only_turns_with_reasoning(tokenizer: Any, make_encoder: Any) -> None:
    encoder = make_encoder(thinking=Thinking.ON)
    (row,) = encode(encoder, HI, HELLO, SUM, SEVEN).rows
    assert spans(tokenizer, row) == ["I compute 3 + 4.</think>7<|im_end|>"]
    assert encode(encoder, HI, HELLO).dropped == "nothing to supervise"


def test_cut_rows_keep_the_mask(make_encoder: Any) -> None:
    (whole,) = encode(make_encoder(), HI, HELLO, SUM, SEVEN).rows
    first = whole.loss_mask.index(1)
    for length in range(first + 1, len(whole.input_ids)):
        (row,) = encode(make_encoder(max_length=length), HI, HELLO, SUM, SEVEN).rows
        assert (row.input_ids, row.loss_mask) == (whole.input_ids[:length], whole.loss_mask[:length])
    assert encode(make_encoder(max_length=first), HI, HELLO).dropped == "answers beyond max_length"


def test_the_trainers_shift_supervises_the_first_token_and_not_the_one_behind_the_last(
    tokenizer: Any, make_encoder: Any
) -> None:
    """https://github.com/sgl-project/SpecForge/issues/885: ids shifted, mask not. Here both go through speculators'."""
    from speculators.models.eagle3.data import shift_batch

    (row,) = encode(make_encoder(), HI, HELLO, SUM, SEVEN).rows
    n = len(row.input_ids)
    states = torch.arange(n, dtype=torch.float32)[:, None]
    shifted = shift_batch(
        {
            "input_ids": torch.tensor(row.input_ids),
            "loss_mask": torch.tensor(row.loss_mask),
            "hidden_states": states,
            "verifier_last_hidden_states": states,
            "lengths": torch.tensor([n]),
            "position_ids": torch.arange(n),
        }
    )
    supervised = shifted["loss_mask"].bool()
    assert tokenizer.decode(shifted["input_ids"][supervised]) == "".join(spans(tokenizer, row))
    first = int(supervised.nonzero()[0])
    # The state from which the first answer token is drafted is that of the generation prompt's last token.
    assert tokenizer.decode(row.input_ids[int(shifted["hidden_states"][first, 0])]) == "</think>"
    ends = [place for place in range(n - 2) if supervised[place] and not supervised[place + 1]]
    assert [tokenizer.decode(shifted["input_ids"][place]) for place in ends] == ["<|im_end|>"]
    assert [tokenizer.decode(shifted["input_ids"][place + 1]) for place in ends] == ["<|im_user|>"]
