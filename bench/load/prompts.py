"""What is asked: the acceptance gate's prompts, prose, and synthetic text to a length before them. Deterministic."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from k25serve.bench.load.record import MIXED, Asked, Cell
from k25serve.drafters.gate import load_prompts
from k25serve.server.errors import UserError

PROSE = Path(__file__).with_name("prose.yaml")


@dataclass(frozen=True, slots=True)
class Source:
    """One prompt's text before it is made unique."""

    id: str
    prompt_class: str
    user: str
    thinking: bool = True
    tools: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """What every request of a run asks for. tokens: of output, exactly; natural_tokens: at most, with a natural end."""

    model: str
    tokens: int
    natural_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request ready to be sent."""

    asked: Asked
    body: bytes


class Prompts:
    """The prompts by class. words_per_token: how many filler words make a token; measured on the engine."""

    def __init__(self, words_per_token: float = 1.0) -> None:
        packaged = load_prompts()
        sources = [
            Source(one.id, one.prompt_class, one.user, one.thinking, tuple(packaged.functions(one)))
            for one in packaged.prompts
        ]
        prose = yaml.safe_load(PROSE.read_text(encoding="utf-8"))
        self._words: list[str] = prose["filler"].split()
        sources += [Source(f"prose-{i:02}", "prose", user) for i, user in enumerate(prose["prompts"], 1)]
        self._words_per_token = words_per_token
        self.by_class: dict[str, list[Source]] = {}
        for source in sources:
            self.by_class.setdefault(source.prompt_class, []).append(source)

    def check(self, classes: tuple[str, ...]) -> None:
        """Raises UserError for a class that isn't there."""
        for name in classes:
            if name not in self.by_class:
                raise UserError(f"--class {name}: none of {', '.join(self.by_class)}")

    def requests(
        self, cell: Cell, count: int, classes: tuple[str, ...], sampling: Sampling, salt: str
    ) -> list[Request]:
        """`count` requests, their classes in turn. Another `salt` gives other texts: no prompt is asked twice of an
        engine, so none comes from its prefix cache; the same salt gives the same bytes to both arms.
        """
        rng = random.Random(f"{sampling.seed}/{salt}/{cell.label}")
        names = classes if cell.prompt_class == MIXED else (cell.prompt_class,)
        queues = [self._endless(name, rng) for name in names]
        found = []
        for number in range(count):
            source = next(queues[number % len(queues)])
            found.append(self._request(source, cell, sampling, f"{salt}/{cell.label}/{number}", rng))
        return found

    def filler(self, words: int, rng: random.Random) -> str:
        """`words` words of no meaning."""
        return " ".join(rng.choice(self._words) for _ in range(words))

    def _endless(self, name: str, rng: random.Random) -> Iterator[Source]:
        while True:
            yield from rng.sample(self.by_class[name], len(self.by_class[name]))

    def _request(self, source: Source, cell: Cell, sampling: Sampling, number: str, rng: random.Random) -> Request:
        # At the very start of the text, so that no prefix is shared but the chat template's.
        text = f"Note {rng.randrange(10**9)}.\n\n"
        if cell.context_tokens:
            text += self.filler(round(cell.context_tokens * self._words_per_token), rng) + "\n\n"
        text += source.user
        content: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
        if source.tools:
            content["tools"] = list(source.tools)
        asked = Asked(
            prompt_id=f"{source.id}/{number}",
            prompt_class=source.prompt_class,
            prompt_sha256=hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest(),
            max_tokens=sampling.tokens if cell.phase == "system" else sampling.natural_tokens,
            ignore_eos=cell.phase == "system",
            temperature=sampling.temperature,
            seed=rng.randrange(2**31),
        )
        return Request(asked, orjson.dumps(chat_body(sampling.model, asked, thinking=source.thinking) | content))


def chat_body(model: str, asked: Asked, *, thinking: bool = True) -> dict[str, Any]:
    """Everything of a request but its messages. Engines ignore fields that only the other one knows."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "seed": asked.seed,
        "return_spec_tokens_details": True,
        "chat_template_kwargs": {"thinking": thinking},
    }
    return body | ({"ignore_eos": True} if asked.ignore_eos else {})
