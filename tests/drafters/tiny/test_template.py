"""The chat template, as literal strings."""

from typing import Any

import jinja2
import pytest
from transformers import PreTrainedTokenizerFast

WEATHER = {
    "type": "function",
    "function": {
        "description": "Get the weather",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": None,
    },
    "defer_loading": None,
}


def render(tokenizer: PreTrainedTokenizerFast, *messages: dict[str, Any], **options: Any) -> str:
    return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **options))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "system", "content": "Be kind."}, "<|im_system|>system<|im_middle|>Be kind.<|im_end|>"),
        ({"role": "developer", "content": "Be kind."}, "<|im_system|>system<|im_middle|>Be kind.<|im_end|>"),
        ({"role": "user", "content": " Hi\n"}, "<|im_user|>user<|im_middle|> Hi\n<|im_end|>"),
        ({"role": "user", "content": ""}, "<|im_user|>user<|im_middle|><|im_end|>"),
        ({"role": "user", "content": None}, "<|im_user|>user<|im_middle|><|im_end|>"),
        ({"role": "user"}, "<|im_user|>user<|im_middle|><|im_end|>"),
        (
            {"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]},
            "<|im_user|>user<|im_middle|>a b<|im_end|>",
        ),
        (
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]},
            "<|im_user|>user<|im_middle|><|media_begin|>image<|media_content|><|media_pad|><|media_end|>What?<|im_end|>",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {}}]},
            "<|im_user|>user<|im_middle|>What?<|media_begin|>image<|media_content|><|media_pad|><|media_end|><|im_end|>",
        ),
        (
            {"role": "assistant", "content": "Hello"},
            "<|im_assistant|>assistant<|im_middle|><think></think>Hello<|im_end|>",
        ),
        (
            {"role": "assistant", "content": "Hello", "reasoning_content": "Greet.\n"},
            "<|im_assistant|>assistant<|im_middle|><think>Greet.\n</think>Hello<|im_end|>",
        ),
        (
            {"role": "tool", "tool_call_id": "functions.f:0", "content": '{"a": 1}'},
            '<|im_system|>tool<|im_middle|>## Return of functions.f:0\n{"a": 1}<|im_end|>',
        ),
        (
            {"role": "tool", "tool_call_id": "functions.f:0", "content": [{"type": "text", "text": "ok"}]},
            "<|im_system|>tool<|im_middle|>## Return of functions.f:0\nok<|im_end|>",
        ),
    ],
)
def test_one_message(tokenizer: PreTrainedTokenizerFast, message: dict[str, Any], expected: str) -> None:
    assert render(tokenizer, message) == expected


@pytest.mark.parametrize(
    ("options", "opened"),
    [
        ({}, "<think>"),
        ({"thinking": True}, "<think>"),
        ({"thinking": None}, "<think>"),
        ({"thinking": False}, "<think></think>"),
    ],
)
def test_generation_prompt(tokenizer: PreTrainedTokenizerFast, options: dict[str, Any], opened: str) -> None:
    text = render(tokenizer, {"role": "user", "content": "Hi"}, add_generation_prompt=True, **options)
    assert text == f"<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|>{opened}"


def test_tools_are_declared_without_what_servers_add(tokenizer: PreTrainedTokenizerFast) -> None:
    bare = {"type": "function", "function": {"name": "now"}}
    assert render(tokenizer, {"role": "user", "content": "Hi"}, tools=[WEATHER, bare]) == (
        "<|im_system|>tool_declare<|im_middle|>"
        '[{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":'
        '{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"now"}}]'
        "<|im_end|><|im_user|>user<|im_middle|>Hi<|im_end|>"
    )


def test_tool_calls_over_several_turns(tokenizer: PreTrainedTokenizerFast) -> None:
    def call(arguments: Any, **extra: str) -> dict[str, Any]:
        return {"type": "function", "function": {"name": "get_weather", "arguments": arguments}, **extra}

    text = render(
        tokenizer,
        {"role": "user", "content": "Weather in Rome and Oslo?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Two calls.",
            "tool_calls": [call({"city": "Rome"}, id="functions.get_weather:0"), call('{"city": "Oslo"}', id="call_7")],
        },
        {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_7", "content": "snow"},
        {"role": "assistant", "content": "Rain and snow."},
        {"role": "user", "content": "And Zürich?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call({"city": "Zürich"})]},
        add_generation_prompt=False,
    )
    assert text == (
        "<|im_user|>user<|im_middle|>Weather in Rome and Oslo?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think>Two calls.</think><|tool_calls_section_begin|>"
        '<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|>'
        '<|tool_call_begin|>call_7<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|>'
        "<|tool_calls_section_end|><|im_end|>"
        "<|im_system|>tool<|im_middle|>## Return of functions.get_weather:0\nrain<|im_end|>"
        "<|im_system|>tool<|im_middle|>## Return of call_7\nsnow<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think></think>Rain and snow.<|im_end|>"
        "<|im_user|>user<|im_middle|>And Zürich?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think></think>I look.<|tool_calls_section_begin|>"
        '<|tool_call_begin|>functions.get_weather:2<|tool_call_argument_begin|>{"city": "Zürich"}<|tool_call_end|>'
        "<|tool_calls_section_end|><|im_end|>"
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            {"role": "user", "content": [{"type": "video_url"}]},
            "part type video_url is not supported: send text",
        ),
        ({"role": "bot", "content": "Hi"}, "role bot is unknown: use system, developer, user, assistant or tool"),
    ],
)
def test_what_is_refused(tokenizer: PreTrainedTokenizerFast, message: dict[str, Any], words: str) -> None:
    with pytest.raises(jinja2.exceptions.TemplateError, match=words):
        render(tokenizer, message)
