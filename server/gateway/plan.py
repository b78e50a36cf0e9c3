"""A generation request, checked and ready to be sent. Pure."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from k25serve.server.gateway.metrics import Target
from k25serve.server.gateway.rewrite import Strip, added_fields, merge
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.validate import check_chat, check_completion, parse

ARM = "sglang"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A generation path and how its body is checked."""

    path: str
    check: Callable[[dict[str, Any], tuple[str, ...], int | None], None]


ENDPOINTS = (Endpoint("/v1/chat/completions", check_chat), Endpoint("/v1/completions", check_completion))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send and how to treat the answer.

    `one_choice`: the answer is a single sequence, so the gaps between its tokens are the engine's steps.
    """

    path: str
    rid: str
    body: bytes
    strip: Strip
    stream: bool
    one_choice: bool
    target: Target


def make_plan(raw: bytes, endpoint: Endpoint, settings: GatewaySettings) -> Plan:
    """Checks a body and adds what the gateway needs.

    Raises:
        InvalidRequestError, ModelNotFoundError: see validate.py.
    """
    body = parse(raw)
    endpoint.check(body, settings.model_names, settings.context_length)
    rid = uuid.uuid4().hex
    added, strip = added_fields(body, rid)
    stream = body.get("stream") is True
    return Plan(
        path=endpoint.path,
        rid=rid,
        body=merge(raw, body, added),
        strip=strip,
        stream=stream,
        one_choice=(body.get("n") or 1) == 1 and _prompts(body.get("prompt")) == 1,
        target=Target(ARM, settings.served_model_name, "true" if stream else "false"),
    )


def _prompts(prompt: object) -> int:
    """How many prompts a completion has; a list of numbers is one, in token ids."""
    return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
