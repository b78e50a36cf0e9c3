"""/v1/models, answered from the settings. Pure."""

from typing import Any

from k25serve.server.gateway.errors import ModelNotFoundError
from k25serve.server.gateway.fields import shown
from k25serve.server.gateway.settings import GatewaySettings


def model_card(name: str, settings: GatewaySettings, created: int) -> dict[str, Any]:
    """One model as OpenAI lists it; `max_model_len`, where known, as SGLang and vLLM add it; `modality`, the
    kinds of input.

    Raises:
        ModelNotFoundError: not served here.
    """
    if name not in settings.model_names:
        served = ", ".join(settings.model_names)
        raise ModelNotFoundError(f"model is {shown(name)}, which is not served here: ask for one of: {served}.")
    card: dict[str, Any] = {"id": name, "object": "model", "created": created, "owned_by": "k25serve"}
    card["modality"] = list(settings.modalities)
    if name != settings.served_model_name:
        card["root"] = settings.served_model_name
    if settings.context_length is not None:
        card["max_model_len"] = settings.context_length
    return card


def model_list(settings: GatewaySettings, created: int) -> dict[str, Any]:
    return {"object": "list", "data": [model_card(name, settings, created) for name in settings.model_names]}
