"""What a first token does not show: kernels that fail on a shared prefix or a long prompt and end the server."""

import aiohttp

PREFIX = "Read the following report and answer with one word. " * 40
LONG_WORDS = 6000
# A word of these prompts is a token or a little more; half of the context leaves room for both.
CONTEXT_SHARE = 2
ANSWER_S = 600.0  # first uses compile kernels


async def fault(engine_url: str, model: str, context_length: int) -> str | None:
    """Two prompts with a shared prefix, a long one, then the first again; what went wrong, None where nothing did."""
    long = "word " * min(LONG_WORDS, context_length // CONTEXT_SHARE)
    prefix = PREFIX[: context_length // CONTEXT_SHARE]
    prompts = {
        "a first prompt": f"{prefix} First.",
        "a second one with the same prefix": f"{prefix} Second.",
        "a long one": long,
        "the first one again": f"{prefix} First.",
    }
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_S)) as session:
        for name, text in prompts.items():
            body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 8}
            try:
                async with session.post(f"{engine_url}/v1/chat/completions", json=body) as answer:
                    status, said = answer.status, await answer.text()
            except (TimeoutError, aiohttp.ClientError) as error:
                return f"the engine was ready, but failed on {name}: {error or type(error).__name__}"
            if status != 200:
                return f"the engine was ready, but answered {name} with HTTP {status}: {said[:200]}"
    return None
