"""A row over a small SGLang that tests make, and its pieces."""

import ast

from k25serve.patches.manifest import Hook, Option, Row, Source
from k25serve.patches.manifest.fingerprint import fingerprint

MODULE = "sglang/srt/worker.py"
SOURCE = "class Worker:\n    def step(self, batch):\n        return batch + 1\n\n\ndef plan(n):\n    return n\n"


def row(**changes: object) -> Row:
    """The row `steps`, which fits `SOURCE` as version 0.5.23."""
    known = {name: str(fingerprint(ast.parse(SOURCE), name)) for name in ("Worker.step", "plan")}
    fields: dict[str, object] = {
        "name": "steps",
        "code": "k25serve.patches.hooks.steps:Steps",
        "hooks": (Hook("sglang.srt.worker.Worker.step", {"0.5.23": known["Worker.step"]}, "around", "step"),),
        "relies_on": (Source("sglang.srt.worker.plan", {"0.5.23": known["plan"]}),),
        "reason": "It is wanted.",
        "upstream": "none",
        "remove_when": "never",
        "options": (Option("limit", 8, "most steps"), Option("share", 0.5, "of the batch")),
    }
    return Row(**(fields | changes))  # type: ignore[arg-type]
