"""Request records for tests, one keyword a change."""

from typing import Any

from k25serve.bench.load.record import Asked, Cell, RequestRecord, Speculation, Tokens

CELL = Cell(level=1)


def asked(number: int = 0, **changes: Any) -> Asked:
    fields = {
        "prompt_id": f"code-01/{number}",
        "prompt_class": "code",
        "prompt_sha256": f"{number:064x}",
        "max_tokens": 31,
        "ignore_eos": True,
        "temperature": 0.0,
        "seed": number,
    }
    return Asked.model_validate(fields | changes)


def record(number: int = 0, **changes: Any) -> RequestRecord:
    """31 tokens: one at 0.1 s, then 10 chunks of 3, one every 30 ms; as speculation sends them."""
    fields: dict[str, Any] = {
        "cell": CELL,
        "asked": asked(number),
        "sent_s": float(number),
        "ended_s": 0.401,
        "wall_sent": 1000.0 + number,
        "wall_ended": 1000.401 + number,
        "chunk_s": (0.1, *(0.1 + 0.03 * i for i in range(11)), 0.4, 0.4),
        "chunk_kinds": "o" + "a" * 11 + "ud",
        "status": 200,
        "finish_reason": "length",
        "tokens": Tokens(prompt=40, completion=31, cached=0),
        "speculation": Speculation(steps=10, proposed=30, accepted=20, histogram=(0, 0, 10)),
    }
    return RequestRecord.model_validate(fields | changes)


def failed(number: int = 0) -> RequestRecord:
    return record(
        number, chunk_s=(), chunk_kinds="", status=500, error="HTTP 500: broken", finish_reason=None, tokens=None,
        speculation=None, ended_s=0.02, wall_ended=1000.02 + number,
    )  # fmt: skip
