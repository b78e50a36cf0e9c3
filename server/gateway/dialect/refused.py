"""Fields that reach into the engine, as data: refused with 400, unless the profile allows them by name.

Every other field passes, known or not. null and false count as absent: some clients send them by default.
Sources: SGLang 0.5.23's protocol.py, vLLM's chat and completion protocols.
"""

from collections.abc import Collection
from typing import Any

from k25serve.server.gateway.errors import InvalidRequestError

REFUSED: dict[str, str] = {
    "custom_logit_processor": "it is code that the engine would run",
    "logits_processors": "it names code that the engine would run",
    "chat_template": "it is a template that the engine would run; the model has its own",
    "prompt_embeds": "it is a pickled tensor that the engine would load",
    "lora_path": "it makes the engine load files; this model has no adapters",
    "stop_regex": "one slow pattern holds up every request of the engine; send stop",
    "input_ids": "it goes past the chat template; send messages, or token ids as prompt to /v1/completions",
    "session_id": "it continues another request's cache inside the engine; send the whole conversation",
    "session_params": "it continues another request's cache inside the engine; send the whole conversation",
    "bootstrap_host": "it routes between prefill and decode engines",
    "bootstrap_port": "it routes between prefill and decode engines",
    "bootstrap_room": "it routes between prefill and decode engines",
    "kv_transfer_params": "it routes between prefill and decode engines",
    "disagg_prefill_dp_rank": "it routes between prefill and decode engines",
    "routed_dp_rank": "it chooses a worker inside the engine",
    "data_parallel_rank": "it chooses a worker inside the engine",
    "return_hidden_states": "hidden states are for training, and megabytes for each token",
    "return_routed_experts": "routing data is for training, and kilobytes for each token",
}


def check_refused(body: dict[str, Any], allowed: Collection[str]) -> None:
    """Raises InvalidRequestError for the first field that clients may not send."""
    if REFUSED.keys().isdisjoint(body):
        return
    for field in body.keys() & REFUSED.keys():
        if body[field] is not None and body[field] is not False and field not in allowed:
            raise InvalidRequestError(
                f"{field} is not served here, since {REFUSED[field]}: leave it out.",
                field,
                "unsupported_parameter",
            )
