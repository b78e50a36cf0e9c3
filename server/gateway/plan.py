"""A generation request, checked, and what an arm is sent for it. Pure."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from k25serve.server.gateway.arms.dialects import WORDS, Words
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.dialect.media import check_media
from k25serve.server.gateway.dialect.refused import check_refused
from k25serve.server.gateway.dialect.request import rewritten_fields
from k25serve.server.gateway.dialect.rules import AnswerRules, answer_rules
from k25serve.server.gateway.dialect.thinking import thinking_mode
from k25serve.server.gateway.errors import InvalidRequestError
from k25serve.server.gateway.metrics import Target
from k25serve.server.gateway.rewrite import Strip, added_fields, merge
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.validate import check_chat, check_completion, parse


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A generation path and how its body is checked."""

    path: str
    check: Callable[[dict[str, Any], tuple[str, ...], int | None], None]


ENDPOINTS = (Endpoint("/v1/chat/completions", check_chat), Endpoint("/v1/completions", check_completion))


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request, whichever arm will get it. `raw` is its text, `body` what that says."""

    raw: bytes
    body: dict[str, Any]
    path: str

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send and how to treat the answer.

    `one_choice`: the answer is a single sequence, so the gaps between its tokens are the engine's steps.
    """

    path: str
    rid: str
    body: bytes
    strip: Strip
    rules: AnswerRules
    stream: bool
    one_choice: bool
    target: Target


def check_request(raw: bytes, endpoint: Endpoint, settings: GatewaySettings) -> Request:
    """Reads and checks a body.

    Raises:
        InvalidRequestError, ModelNotFoundError: see validate.py and dialect/.
    """
    body = parse(raw)
    endpoint.check(body, settings.model_names, settings.context_length)
    check_refused(body, settings.allowed_engine_fields)
    if endpoint.check is check_chat:
        check_media(body, settings)
        thinking_mode(body)
    else:
        # Some clients send both; a completion has no messages.
        body.pop("messages", None)
    return Request(raw, body, endpoint.path)


def make_plan(request: Request, arm: ArmSettings, settings: GatewaySettings) -> Plan:
    """What `arm` is sent, under an id of its own.

    Raises:
        InvalidRequestError: nested too deeply to be written again.
    """
    body, words = request.body, WORDS[arm.dialect]
    rid = os.urandom(16).hex()
    fields = _rewritten(request, words, settings)
    if arm.model is not None and body["model"] != arm.model:
        fields["model"] = arm.model
    added, strip = added_fields(body, rid, words)
    return Plan(
        path=request.path,
        rid=rid,
        body=merge(request.raw, body, fields | added),
        strip=strip,
        rules=answer_rules(body, words, settings),
        stream=request.stream,
        one_choice=(body.get("n") or 1) == 1 and _prompts(body.get("prompt")) == 1,
        target=Target(arm.name, settings.served_model_name, "true" if request.stream else "false"),
    )


def _rewritten(request: Request, words: Words, settings: GatewaySettings) -> dict[str, Any]:
    fields = rewritten_fields(request.body, words, settings)
    if fields.keys().isdisjoint(request.body):
        return fields
    # Made anew from what the standard library reads: orjson turns integers beyond 64 bits into floats.
    try:
        exact = {name: value for name, value in json.loads(request.raw).items() if name in request.body}
        return rewritten_fields(exact, words, settings)
    except RecursionError:
        raise InvalidRequestError("The body is nested too deeply: send fewer levels.", None) from None


def _prompts(prompt: object) -> int:
    """How many prompts a completion has; a list of numbers is one, in token ids."""
    return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
