"""The engine that captures, over HTTP: what it is, and one prompt at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import Meaning

REPORT = "k25serve_capture_states"
MARKER = "engine.json"
SHOWN = 200  # characters of an engine's error
FLAGS = {"disable_radix_cache": "--disable-radix-cache", "chunked_prefill_size": "--chunked-prefill-size -1"}
# What the states depend on, kept beside them.
SETTINGS = ("dtype", "tp_size", "quantization", "kv_cache_dtype", "attention_backend", "device", "random_seed")


@dataclass(frozen=True)
class EngineState:
    """What an engine says of itself. directory: where it writes, as it sees it."""

    version: str
    meaning: Meaning
    directory: Path
    settings: Mapping[str, Any]
    longest: int | None
    refused: Mapping[str, str]


class Engine:
    """An SGLang with the row `capture_states`. `url` is its own base address, not the gateway's."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise TrainingError(f"--url {url}: the scheme is missing; pass http://{url.rpartition('://')[2]}")
        self._session, self.url = session, url.rstrip("/").removesuffix("/v1")

    async def state(self) -> EngineState:
        """What the engine says of itself. Raises TrainingError where it does not capture, with the flag to set."""
        info = await self._get("/server_info")
        states = info.get("internal_states")
        inner = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
        report = inner.get(REPORT)
        if not isinstance(report, dict) or "layers" not in report:
            raise TrainingError(
                f"--url {self.url}: the engine does not capture; start it with --set "
                "patches.capture_states.directory=PATH --set 'patches.capture_states.layers=\"1,29,57\"'"
            )
        for name, flag in FLAGS.items():
            if not _whole(name, inner.get(name)):
                raise TrainingError(
                    f"--url {self.url}: {name} is {inner.get(name)}, so prompts would not be computed whole; "
                    f"start the engine with {flag} in engine.extra_args"
                )
        return EngineState(
            version=str(info.get("version")),
            meaning=Meaning(tuple(report["layers"]), int(report["last_layer"]), int(report["hidden_size"])),
            directory=Path(report["directory"]),
            settings={name: inner.get(name) for name in SETTINGS},
            longest=info.get("max_req_input_len"),
            refused=report.get("refused") or {},
        )

    async def prefill(self, rid: str, input_ids: Sequence[int], logprobs: bool = False) -> dict[str, Any]:
        """One prompt with one new token, greedily: `meta_info` of the answer. Raises TrainingError.

        logprobs: also those of the prompt's tokens, and the most likely token at each place.
        """
        body: dict[str, Any] = {
            "rid": rid,
            "input_ids": list(input_ids),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0, "ignore_eos": True},
        }
        if logprobs:
            body |= {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2}
        try:
            async with self._session.post(f"{self.url}/generate", json=body) as response:
                if response.status != 200:
                    text = (await response.text())[:SHOWN]
                    raise TrainingError(f"--url {self.url}: request {rid} got {response.status} {text}")
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(error) from None
        meta: dict[str, Any] = answer["meta_info"]
        if meta.get("cached_tokens"):
            raise TrainingError(
                f"--url {self.url}: {meta['cached_tokens']} tokens of request {rid} came from a cache; "
                "start the engine with --disable-radix-cache"
            )
        return meta

    async def _get(self, path: str) -> dict[str, Any]:
        try:
            async with self._session.get(f"{self.url}{path}") as response:
                if response.status != 200:
                    raise TrainingError(
                        f"--url {self.url}: {path} answers {response.status}; pass the engine's own address, "
                        "not the gateway's"
                    )
                found = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(error) from None
        except ValueError:
            raise TrainingError(f"--url {self.url}: {path} is no JSON; pass an SGLang engine's address") from None
        return found if isinstance(found, dict) else {}

    def _lost(self, error: Exception) -> TrainingError:
        why = str(error) or type(error).__name__
        return TrainingError(f"--url {self.url}: {why}; see that the engine runs, then start again: it goes on")


def session(seconds: float) -> aiohttp.ClientSession:
    """For an engine. seconds: for one request.

    A connection a request: a kept one may be closed by the engine just as the next prompt is sent.
    """
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=seconds),
        connector=aiohttp.TCPConnector(force_close=True),
        trust_env=False,
    )


async def wait_for(path: Path, engine: Engine, rid: str, seconds: float) -> None:
    """Until the engine has written `path`. Raises TrainingError with its reason where it says why it can't."""
    begun = asyncio.get_running_loop().time()
    pause, asked = 0.002, begun
    while not _is_there(path):
        now = asyncio.get_running_loop().time()
        if now - asked > 2.0:
            asked = now
            reason = (await engine.state()).refused.get(rid)
            if reason is not None:
                raise TrainingError(f"the engine can't write {path.name}: {reason}; mend it, then start again")
        if now - begun > seconds:
            raise TrainingError(
                f"{path}: not written {seconds:.0f} s after its prompt; see that --staging is the engine's own folder"
            )
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)


def _is_there(path: Path) -> bool:
    return path.exists()


def _whole(name: str, value: object) -> bool:
    """Whether a prompt is computed whole, as far as this server argument goes."""
    return value is True if name == "disable_radix_cache" else isinstance(value, int) and value <= 0
