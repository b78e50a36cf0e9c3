"""How many tokens the KV cache holds, told once the engine serves."""

from dataclasses import dataclass

import aiohttp


@dataclass(frozen=True)
class Capacity:
    """KV cache of a running engine, in tokens, and the requests that it admits at once."""

    tokens: int
    max_running_requests: int

    @property
    def tokens_per_request(self) -> int:
        """Tokens that each request has at full concurrency."""
        return self.tokens // self.max_running_requests

    def __str__(self) -> str:
        return (
            f"KV cache: {self.tokens:,} tokens; {self.tokens_per_request:,} a request "
            f"with {self.max_running_requests} running"
        )


async def read_capacity(engine_url: str) -> Capacity:
    """Ask the running engine, since SGLang may admit less than the profile asked for.

    Source: SGLang's /server_info, `max_total_num_tokens` and the first of `internal_states`.
    """
    async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(f"{engine_url}/server_info") as got:
        info = await got.json()
    running = info["internal_states"][0]["effective_max_running_requests_per_dp"]
    return Capacity(int(info["max_total_num_tokens"]), int(running))
