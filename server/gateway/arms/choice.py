"""Which arms a request may go to, best first. Pure."""

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from k25serve.server.gateway.arms.arm import Arm
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.errors import ForbiddenError, InvalidRequestError, NotReadyError
from k25serve.server.gateway.fields import shown
from k25serve.server.gateway.settings import GatewaySettings

ARM_HEADER = "x-k25serve-arm"
"""In an answer: the arm that gave it. In a request of the staff: the arm that must."""


def rendezvous(key: bytes, salt: str, arms: Sequence[ArmSettings]) -> list[str]:
    """Names of the arms in the order in which `key` prefers them; those of weight 0 are left out.

    Weighted rendezvous hashing (Schindelhauer and Schomaker 2005): the highest of -weight / ln(hash) wins, so that an
    arm's coming or going moves only the conversations that it gains or loses.
    """
    scores = []
    for arm in arms:
        if arm.weight:
            digest = blake2b(f"{salt}\0{arm.name}\0".encode() + key, digest_size=8).digest()
            uniform = (int.from_bytes(digest) + 1) / (2**64 + 2)
            scores.append((-arm.weight / math.log(uniform), arm.name))
    return [name for _, name in sorted(scores, reverse=True)]


def conversation_key(body: Mapping[str, Any], header: str | None) -> bytes:
    """What stays the same over a conversation's requests: the header, else the user, else how it began."""
    if header:
        return b"header:" + header.encode()
    user = body.get("user")
    if isinstance(user, str) and user:
        return b"user:" + user.encode()
    messages = body.get("messages")
    if isinstance(messages, list):
        first_user = next((i for i, message in enumerate(messages) if message.get("role") == "user"), 0)
        return b"messages:" + orjson.dumps(messages[: first_user + 1])
    return b"prompt:" + orjson.dumps(body.get("prompt"))[:4096]


def eligible(
    arms: Sequence[Arm],
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    settings: GatewaySettings,
    *,
    staff: bool,
    order: Sequence[str] | None = None,
) -> list[Arm]:
    """The arms to try, in order. `order`: an experiment's, in place of the arms' own weights.

    Raises:
        ForbiddenError: the arm header without the right to it.
        InvalidRequestError: the arm header names none.
        NotReadyError: no arm can answer now.
    """
    wanted = headers.get(ARM_HEADER)
    if wanted is not None:
        if not staff:
            raise ForbiddenError(f"The header {ARM_HEADER} is for the staff: leave it out, or use a staff key.")
        chosen = [arm for arm in arms if arm.name == wanted]
        if not chosen:
            names = ", ".join(arm.name for arm in arms)
            raise InvalidRequestError(f"{ARM_HEADER} is {shown(wanted)}: send one of: {names}.", ARM_HEADER)
    elif len(arms) == 1:
        chosen = list(arms)
    else:
        by_name = {arm.name: arm for arm in arms}
        if order is None:
            key = conversation_key(body, headers.get(settings.sticky_header))
            order = rendezvous(key, settings.sticky_salt, [arm.settings for arm in arms])
        chosen = [by_name[name] for name in order]
    available = [arm for arm in chosen if arm.available]
    if not available:
        raise _nobody(chosen[0], settings.retry_after_s)
    return available


def _nobody(arm: Arm, retry_after_s: int) -> NotReadyError:
    reason = arm.readiness.reason or "the engine did not answer the last calls"
    return NotReadyError(f"Not ready: {reason}. Try again in {retry_after_s} s; GET /ready says when.", retry_after_s)
