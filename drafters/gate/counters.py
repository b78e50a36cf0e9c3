"""vLLM's server-wide counters, for versions that report nothing a request (before 0.32, or without its flag). Pure."""

import re

from k25serve.drafters.gate.acceptance import Counts

NAMES = {
    "steps": "vllm:spec_decode_num_drafts_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "proposed": "vllm:spec_decode_num_draft_tokens_total",
}


def read_counters(text: str) -> Counts | None:
    """The three counters, summed over their label sets; None where the page has none of them."""
    found = {
        field: [float(value) for value in re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? ([0-9.eE+]+)", text, re.M)]
        for field, name in NAMES.items()
    }
    if not any(found.values()):
        return None
    return Counts(**{field: int(sum(values)) for field, values in found.items()})


def between(before: Counts, after: Counts) -> Counts:
    """What was counted in between. Other clients' requests count too."""
    return Counts(after.steps - before.steps, after.accepted - before.accepted, after.proposed - before.proposed)
