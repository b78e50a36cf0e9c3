"""Row spec_tokens_details: `return_spec_tokens_details` of SGLang 0.5.23, in 0.5.17, where it is unknown."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from k25serve.patches.context import Context

FIELD = "return_spec_tokens_details"
# Acceptance of a request: 0.5.17 has it in every answer's meta_info, which its OpenAI streams leave out.
COUNTS = (
    "spec_accept_rate",
    "spec_accept_length",
    "spec_cap_length",
    "spec_block_accept_length",
    "spec_num_correct_drafts",
    "spec_num_proposed_drafts",
    "spec_verify_ct",
    "spec_correct_drafts_histogram",
    "spec_cap_lens_histogram",
)
# In a frame without choices, and in no delta's text: its quotes would be escaped.
_NO_CHOICES = '"choices":[]'
_END = "data: [DONE]"

Details = dict[int, dict[str, Any]]  # of each choice


class SpecTokensDetails:
    """Takes the counts off the engine's answers to requests that ask for them, and adds them to the reply.

    `_asked`: id() of SGLang's request object -> the counts so far; an entry lives as long as its handler runs.
    """

    def __init__(self, context: Context) -> None:
        self._asked: dict[int, Details] = {}

    async def generate(
        self, original: Callable[..., Any], manager: Any, obj: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Around `TokenizerManager.generate_request`, an async generator of answers or of lists of them."""
        details = self._asked.get(id(obj))
        async for content in original(manager, obj, *args, **kwargs):
            if details is not None:
                items = content if isinstance(content, list) else [content]
                for position, item in enumerate(items):
                    note(details, position, item)
            yield content

    async def stream(
        self, original: Callable[..., Any], serving: Any, adapted: Any, request: Any, raw_request: Any
    ) -> AsyncIterator[str]:
        """Around `_generate_chat_stream` and `_generate_completion_stream`: one more frame, before the usage."""
        if not await asked(raw_request):
            async for frame in original(serving, adapted, request, raw_request):
                yield frame
            return
        details: Details = {}
        self._asked[id(adapted)] = details
        first, told = "", False
        try:
            async for frame in original(serving, adapted, request, raw_request):
                if details and not told and (_NO_CHOICES in frame or frame.startswith(_END)):
                    told = True
                    yield details_frame(first or frame, details)
                first = first or frame
                yield frame
        finally:
            del self._asked[id(adapted)]

    async def whole(
        self, original: Callable[..., Awaitable[Any]], serving: Any, adapted: Any, request: Any, raw_request: Any
    ) -> Any:
        """Around `_handle_non_streaming_request`: the same under `sglext` of the one answer."""
        if not await asked(raw_request):
            return await original(serving, adapted, request, raw_request)
        details: Details = {}
        self._asked[id(adapted)] = details
        try:
            response = await original(serving, adapted, request, raw_request)
        finally:
            del self._asked[id(adapted)]
        return with_details(response, details)


async def asked(raw_request: Any) -> bool:
    """Whether the request's body has the field, which SGLang's model of it drops. The body is parsed already."""
    body = await raw_request.json()
    return isinstance(body, dict) and body.get(FIELD) is True


def note(details: Details, position: int, answer: dict[str, Any]) -> None:
    """Keep the counts of an answer; they grow until the last one. Nothing before the first verify step."""
    meta = answer["meta_info"]
    counts = {name: meta[name] for name in COUNTS if meta.get(name) is not None}
    if counts:
        details[answer.get("index", position)] = counts


def shaped(details: Details) -> dict[str, Any] | list[dict[str, Any]]:
    """One object for one choice, else a list, as 0.5.23 has it."""
    parts = [details[index] for index in sorted(details)]
    return parts[0] if len(parts) == 1 else parts


def details_frame(like: str, details: Details) -> str:
    """The frame with the counts; id, model and the like are those of the frame `like`."""
    frame = json.loads(like.removeprefix("data: "))
    head = {name: frame[name] for name in ("id", "object", "created", "model") if name in frame}
    extra = head | {"choices": [], "usage": None, "sglext": {"spec_tokens_details": shaped(details)}}
    return f"data: {json.dumps(extra, separators=(',', ':'))}\n\n"


def with_details(response: Any, details: Details) -> Any:
    """The answer with the counts, as JSON; an error's reply, or an answer without counts, as it is."""
    if not details or not hasattr(response, "choices"):
        return response
    from fastapi.responses import JSONResponse

    document = response.model_dump(mode="json", by_alias=True)
    document["sglext"] = (document.get("sglext") or {}) | {"spec_tokens_details": shaped(details)}
    return JSONResponse(document)
