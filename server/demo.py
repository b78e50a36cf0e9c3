"""One question to the packaged model, through the gateway: what the stack does, in a minute."""

import json
import time
import unicodedata
from collections.abc import AsyncIterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import aiohttp
from rich.console import Console
from rich.text import Text

from k25serve.server.config import Profile
from k25serve.server.engine.preflight import free_gpu_bytes
from k25serve.server.errors import EngineFailed
from k25serve.server.serve import gateway_url, serve

QUESTION = "Who are you?"
MAX_TOKENS = 400


def choose_profile() -> str:
    """`gpu-tiny` where there is an NVIDIA GPU and SGLang's kernels for it, else `cpu-tiny`."""
    try:
        version("sglang-kernel")
    except PackageNotFoundError:
        return "cpu-tiny"
    return "gpu-tiny" if free_gpu_bytes() else "cpu-tiny"


async def demo(profile: Profile, console: Console, question: str, *, once: bool) -> None:
    """Serve `profile`, ask `question`, print the streamed answer; then stay up, or stop where `once`."""

    async def on_ready() -> bool:
        await ask(profile, console, question)
        if not once:
            console.print(f"\n{curl_line(profile, question)}\n", markup=False, highlight=False)
            console.print(f"metrics: {gateway_url(profile)}/metrics", highlight=False)
            console.print("Up until Ctrl-C.", highlight=False)
        return not once

    await serve(profile, console, on_ready)


async def ask(profile: Profile, console: Console, question: str) -> None:
    """Stream one chat and print it with its tokens per second and acceptance length."""
    body = question_body(profile, question) | {
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_spec_tokens_details": True,
    }
    url = f"{gateway_url(profile)}/v1/chat/completions"
    console.print(Text.assemble(("\nQ  ", "bold"), printable(question)))
    console.print(Text("A  ", style="bold"), end="")
    started = time.monotonic()
    first = last = 0.0
    in_thought = False
    usage: dict[str, Any] = {}
    details: dict[str, Any] = {}
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        if answer.status != 200:
            raise EngineFailed(f"the question was refused with HTTP {answer.status}: {(await answer.text())[:500]}")
        async for event in _events(answer):
            usage = event.get("usage") or usage
            details = (event.get("sglext") or {}).get("spec_tokens_details") or details
            for choice in event.get("choices") or ():
                delta = choice["delta"]
                thought, text = delta.get("reasoning_content") or "", delta.get("content") or ""
                if thought or text:
                    last = time.monotonic()
                    first = first or last
                    gap = "\n\n" if in_thought and text else ""
                    in_thought = not text
                    console.print(Text.assemble((printable(thought), "dim"), gap, printable(text)), end="")
    console.print("\n")
    tokens = usage["completion_tokens"]
    rate = (tokens - 1) / (last - first) if last > first else float("nan")
    console.print(f"{tokens} tokens, first after {first - started:.2f} s, then {rate:.0f} tok/s", highlight=False)
    if details.get("spec_verify_ct"):
        steps, accepted = details["spec_verify_ct"], details["spec_num_correct_drafts"]
        console.print(
            f"EAGLE-3 accept_length {1 + accepted / steps:.2f} "
            f"(1 + {accepted} accepted draft tokens / {steps} verify steps)",
            highlight=False,
        )


def printable(text: str) -> str:
    """`text` without what a terminal would obey: control characters are shown as escapes."""
    return "".join(
        char if char in "\n\t" or not unicodedata.category(char).startswith("C") else ascii(char)[1:-1] for char in text
    )


def question_body(profile: Profile, question: str) -> dict[str, Any]:
    """What both the demo and its curl line send: greedy, so that both get the same answer."""
    messages = [{"role": "user", "content": question}]
    return {"model": profile.served_model_name, "messages": messages, "max_tokens": MAX_TOKENS, "temperature": 0}


def curl_line(profile: Profile, question: str) -> str:
    """The same question for a shell."""
    quoted = json.dumps(question_body(profile, question)).replace("'", "'\\''")
    return f"curl {gateway_url(profile)}/v1/chat/completions -H 'Content-Type: application/json' -d '{quoted}'"


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """JSON events of a server-sent stream, until [DONE]."""
    async for line in answer.content:
        data = line.removeprefix(b"data: ").strip()
        if line.startswith(b"data: ") and data != b"[DONE]":
            yield json.loads(data)
