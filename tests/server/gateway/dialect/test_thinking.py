import pytest

from k25serve.server.gateway.dialect.thinking import thinking_fields, thinking_mode
from k25serve.server.gateway.errors import InvalidRequestError
from k25serve.server.gateway.settings import SamplingDefaults, ThinkingSettings

FORMS = [
    (lambda on: {"chat_template_kwargs": {"thinking": on}}),
    (lambda on: {"chat_template_kwargs": {"enable_thinking": on}}),
    (lambda on: {"thinking": {"type": "enabled" if on else "disabled"}}),
    (lambda on: {"thinking": on}),
    (lambda on: {"enable_thinking": on}),
    (lambda on: {"reasoning": {"enabled": on}}),
    (lambda on: {"reasoning": {"effort": "high" if on else "none"}}),
    (lambda on: {"reasoning_effort": "low" if on else "none"}),
]
MODES = ThinkingSettings(
    sampling_on=SamplingDefaults(temperature=1.0, top_p=0.95), sampling_off=SamplingDefaults(temperature=0.6)
)


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_reaches_the_template(form, on):
    body = form(on)
    assert thinking_mode(body) is on
    sent = body | thinking_fields(body, ThinkingSettings())
    assert sent["chat_template_kwargs"]["thinking"] is on


def test_the_templates_own_form_passes_unchanged():
    assert thinking_fields({"chat_template_kwargs": {"thinking": False, "x": 1}}, ThinkingSettings()) == {}


def test_other_template_arguments_stay():
    body = {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"x": 1}}
    assert thinking_fields(body, ThinkingSettings()) == {"chat_template_kwargs": {"x": 1, "thinking": False}}


@pytest.mark.parametrize("body", [{}, {"thinking": None}, {"chat_template_kwargs": {}}, {"reasoning": "text"}])
def test_who_says_nothing_gets_the_default(body):
    assert thinking_mode(body) is None
    assert thinking_fields(body, ThinkingSettings()) == {}
    off = thinking_fields(body, MODES.model_copy(update={"default": False}))
    assert off == {"chat_template_kwargs": {"thinking": False}, "temperature": 0.6}
    assert thinking_fields(body, MODES) == {"temperature": 1.0, "top_p": 0.95}


def test_what_the_client_set_is_kept():
    body = {"enable_thinking": False, "temperature": 0, "top_p": None}
    assert thinking_fields(body, MODES) == {"chat_template_kwargs": {"thinking": False}}
    assert thinking_fields({"temperature": 0.2, "top_p": None}, MODES) == {"top_p": 0.95}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"thinking": {"type": "maybe"}}, "thinking.type"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": {"type": []}}, "thinking.type"),
        ({"thinking": "no"}, "thinking"),
        ({"chat_template_kwargs": {"thinking": "false"}}, "chat_template_kwargs.thinking"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"enable_thinking": 0}, "enable_thinking"),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "none"}, "reasoning_effort"),
    ],
)
def test_mistakes_and_contradictions_are_told(body, param):
    with pytest.raises(InvalidRequestError) as caught:
        thinking_mode(body)
    assert caught.value.param == param
    assert "send" in caught.value.message
