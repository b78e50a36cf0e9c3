"""How the engines' dialects differ, as data. Sources: SGLang 0.5.23's protocol.py and http_server.py; vLLM's
`ChatCompletionRequest` and its acceptance metrics as documented for 0.32."""

from dataclasses import dataclass

from k25serve.server.gateway.arms.settings import Dialect


@dataclass(frozen=True, slots=True)
class Words:
    """One dialect.

    `reasoning`: the field of the model's thoughts, in answers and, in history, on the way in; None: not known.
    `rid`: the request field for an id of ours.
    `spec_field`: the request field that asks for acceptance, if there is one.
    `abort_path`: ends a request by its id; None: closing the connection is all there is.
    `developer`: the chat template is known to have no branch for the role developer.
    """

    reasoning: str | None
    rid: str | None
    spec_field: str | None
    abort_path: str | None
    developer: bool


WORDS: dict[Dialect, Words] = {
    "sglang": Words("reasoning_content", "rid", "return_spec_tokens_details", "/abort_request", False),
    "vllm": Words("reasoning", "request_id", None, None, False),
    "openai": Words(None, None, None, None, True),
}
REASONING_NAMES = ("reasoning_content", "reasoning")
