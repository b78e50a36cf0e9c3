"""Each assistant turn as the engine meets it: the prompt that is sent, and the text that the model then writes.

Both come from the template itself. The prompt is the messages before the turn with the generation prompt; what the
model writes is what the template adds to that prompt once the turn is there. Kimi-K2.5's template leaves the reasoning
out of every turn up to the last one without a tool call, so of the very turn that is to be learnt: its reasoning is
then taken from a rendering of the same turn with a tool call, where the template keeps it, as it keeps there the
reasoning of the calls before, which the engine's prompt holds too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.checked import THINK_END
from k25serve.drafters.training.data.conversation import REASONING, WEIGHT, Conversation, Message, wrote_something
from k25serve.drafters.training.data.options import Thinking

PROBE = {"id": "functions.probe:0", "type": "function", "function": {"name": "probe", "arguments": "{}"}}
QUESTION = {"role": "user", "content": "?"}


@dataclass(frozen=True)
class Turn:
    """prompt: with the generation prompt at its end; written: up to the turn's end and what the template adds there.

    reasoning_lost: the template shows this turn's reasoning nowhere, so it is rendered with thinking off.
    """

    prompt: str
    written: str
    thinking: bool
    reasoning_lost: bool = False


class TurnRenderer:
    """Renders with one tokenizer's template."""

    def __init__(self, tokenizer: Any, thinking: Thinking) -> None:
        self._tokenizer, self._thinking = tokenizer, thinking

    def turns(self, conversation: Conversation) -> Iterator[Turn]:
        """The turns that are supervised, in order. Raises BadRow where the template cannot render the conversation."""
        messages = [self._read(message) for message in conversation.messages]
        tools = list(conversation.tools) or None
        for place, message in enumerate(messages):
            unlearnt = conversation.messages[place].get(WEIGHT) == 0
            if message["role"] != "assistant" or unlearnt or not wrote_something(message):
                continue
            if self._thinking is Thinking.ON and not message.get(REASONING):
                continue
            yield self._turn(messages[:place], message, tools)

    def _read(self, message: Message) -> Message:
        """What the template is to read."""
        unread = (WEIGHT, REASONING) if self._thinking is Thinking.OFF else (WEIGHT,)
        return {key: value for key, value in message.items() if key not in unread}

    def _turn(self, before: list[Message], message: Message, tools: list[Any] | None) -> Turn:
        if not message.get(REASONING):
            return Turn(*self._continued(before, message, tools, thinking=False), thinking=False)
        prompt, written = self._continued(before, message, tools, thinking=True)
        if not _shows(written, message):
            kept = self._kept_reasoning(prompt, before, message, tools)
            if kept is None:
                without = {key: value for key, value in message.items() if key != REASONING}
                answer = self._continued(before, without, tools, thinking=False)
                return Turn(*answer, thinking=False, reasoning_lost=True)
            written = kept + written[written.index(THINK_END) :]
        return Turn(prompt, written, thinking=True)

    def _continued(
        self, before: list[Message], message: Message, tools: list[Any] | None, thinking: bool
    ) -> tuple[str, str]:
        """The prompt, and what the template adds to it with the turn. Raises BadRow where that is no continuation."""
        prompt = self._text(before, tools, thinking, generate=True)
        written = _added(prompt, self._text([*before, message], tools, thinking, generate=False))
        if written is None and self._with_call(prompt, before, message, tools, thinking) is not None:
            # The turn itself makes the template forget reasoning before it, which the engine's prompt still holds.
            alone = self._text([QUESTION], tools, thinking, generate=True)
            written = _added(alone, self._text([QUESTION, message], tools, thinking, generate=False))
        if written is None:
            raise BadRow(
                "template",
                f"messages[{len(before)}]",
                message.get("content"),
                "the target's chat template does not continue its own generation prompt here; mend the template",
            )
        return prompt, written

    def _kept_reasoning(
        self, prompt: str, before: list[Message], message: Message, tools: list[Any] | None
    ) -> str | None:
        """The reasoning as the template writes it, up to `</think>`; None where it shows it in no form."""
        head, found, _ = (self._with_call(prompt, before, message, tools, True) or "").partition(THINK_END)
        return head if found and message[REASONING].strip() in head else None

    def _with_call(
        self, prompt: str, before: list[Message], message: Message, tools: list[Any] | None, thinking: bool
    ) -> str | None:
        """What the template adds to the prompt for a turn that calls a tool; None where the turn has calls already."""
        if message.get("tool_calls"):
            return None
        return _added(prompt, self._text([*before, message | {"tool_calls": [PROBE]}], tools, thinking, generate=False))

    def _text(self, messages: list[Message], tools: list[Any] | None, thinking: bool, generate: bool) -> str:
        import jinja2

        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    tools=tools,
                    tokenize=False,
                    add_generation_prompt=generate,
                    thinking=thinking,
                    enable_thinking=thinking,
                )
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise BadRow(
                "template", "messages", [m["role"] for m in messages], f"the target's chat template refuses it: {error}"
            ) from None


def _shows(written: str, message: Message) -> bool:
    """Whether the reasoning stands before `</think>`; a turn without the mark can't be completed, so it counts too."""
    head, found, _ = written.partition(THINK_END)
    return not found or message[REASONING].strip() in head


def _added(prompt: str, whole: str) -> str | None:
    """What `whole` has more than `prompt`; None where it does not begin with it."""
    return whole[len(prompt) :] if whole.startswith(prompt) else None
