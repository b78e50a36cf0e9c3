"""Asks an OpenAI-compatible engine one packaged prompt, tool round trip included."""

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

from k25serve.drafters.checkpoint.errors import GateError
from k25serve.drafters.gate.acceptance import Counts, read_counts
from k25serve.drafters.gate.prompts import Prompt, PromptSet

SHOWN = 200  # characters of an engine's error


@dataclass(frozen=True)
class Asked:
    """One prompt's answers: of the question, and of the tool's result where the model called one."""

    prompt: Prompt
    requests: int
    completion_tokens: int
    counts: Counts | None
    called_tool: bool = False
    error: str = ""


class Engine:
    """An engine's chat endpoint. `url` is its base, with or without `/v1`. Raises GateError where it has no scheme."""

    def __init__(self, session: aiohttp.ClientSession, url: str, model: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise GateError(f"--url {url}: the scheme is missing; pass http://{url.rpartition('://')[2]}")
        self._session = session
        self.url = url.rstrip("/").removesuffix("/v1")
        self._asked_for = model
        self._model: str | None = None

    async def model(self) -> str:
        """The served model's name: as given, else the first that the engine lists.

        Raises GateError where the engine lists none, or not the one that was given.
        """
        if self._model is None:
            listed = await self._get(f"{self.url}/v1/models")
            try:
                names = [str(one["id"]) for one in json.loads(listed)["data"]]
                first = names[0]
            except (IndexError, KeyError, TypeError, ValueError):
                raise GateError(f"--url {self.url}: /v1/models lists no model; pass an engine's own address") from None
            if self._asked_for not in (None, *names):
                raise GateError(f"--model {self._asked_for}: {self.url} does not list it; pass {' or '.join(names)}")
            self._model = self._asked_for or first
        return self._model

    async def metrics(self) -> str:
        """The engine's /metrics page, empty where it has none."""
        try:
            return await self._get(f"{self.url}/metrics")
        except GateError:
            return ""

    async def ask(self, prompts: PromptSet, prompt: Prompt, max_tokens: int) -> Asked:
        """The answer to `prompt`, and to the tool's result. An HTTP error becomes `error`; it is one prompt's."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt.user}]
        tokens, counts, requests, called = 0, None, 0, False
        try:
            for _ in range(2):
                answer = await self._chat(prompts, prompt, messages, max_tokens)
                requests, found = requests + 1, read_counts(answer)
                counts = found if counts is None else counts + (found or Counts())
                tokens += int((answer.get("usage") or {}).get("completion_tokens") or 0)
                message = answer["choices"][0]["message"]
                calls = message.get("tool_calls") or []
                # A call that max_tokens cut short is no JSON, and engines refuse it in a history.
                if called or not calls or not all(_is_whole(call) for call in calls):
                    break
                called = True
                messages += [_assistant(message), *(_result(prompts, call) for call in calls)]
        except (aiohttp.ClientError, TimeoutError, GateError, IndexError, KeyError, TypeError, ValueError) as error:
            return Asked(prompt, requests, tokens, counts, called, f"{type(error).__name__}: {error}"[:SHOWN])
        return Asked(prompt, requests, tokens, counts, called)

    async def _chat(
        self, prompts: PromptSet, prompt: Prompt, messages: list[dict[str, Any]], max_tokens: int
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": await self.model(),
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "chat_template_kwargs": {"thinking": prompt.thinking},
            # SGLang 0.5.23 and 0.5.17; vLLM ignores fields that it does not know.
            "return_spec_tokens_details": True,
            "return_meta_info": True,
        }
        if prompt.tools:
            body["tools"] = prompts.functions(prompt)
        async with self._session.post(f"{self.url}/v1/chat/completions", json=body) as response:
            text = await response.text()
            if response.status != 200:
                raise GateError(f"{response.status} {text[:SHOWN]}")
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise GateError(f"answered {text[:SHOWN]}")
        return answer

    async def _get(self, url: str) -> str:
        try:
            async with self._session.get(url) as response:
                if response.status != 200:
                    raise GateError(f"--url {self.url}: {url} answers {response.status}; pass an engine's own address")
                return await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise GateError(f"--url {self.url}: cannot be reached ({error}); start the engine first") from None


def _assistant(message: dict[str, Any]) -> dict[str, Any]:
    kept = {key: message[key] for key in ("content", "reasoning_content", "tool_calls") if message.get(key)}
    return {"role": "assistant", "content": "", **kept}


def _is_whole(call: dict[str, Any]) -> bool:
    try:
        return isinstance(json.loads(call["function"]["arguments"]), dict)
    except ValueError:
        return False


def _result(prompts: PromptSet, call: dict[str, Any]) -> dict[str, Any]:
    name = str(call["function"]["name"])
    content = prompts.answers.get(name, json.dumps({"error": f"no tool named {name}"}))
    return {"role": "tool", "tool_call_id": call.get("id", ""), "content": content}
