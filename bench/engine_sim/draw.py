"""Draws what a request will get: its steps, their times and what they accept. Pure."""

import math
import random
from dataclasses import dataclass

from k25serve.bench.engine_sim.settings import SimOptions, SimSettings

_WORDS = ("the", "graph", "of", "a", "kernel", "修改", "is", "naïve", "step", "🙂", "over", "eight", "lanes")


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: `tokens` new tokens with their text, `seconds` after the one before it."""

    text: str
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole request's answer. `steps[0]` is the prefill, which gives one token; every later step verifies."""

    steps: tuple[Step, ...]
    accepted: tuple[int, ...]
    """Draft tokens accepted by each verify step; each one also gives the target's own token."""
    num_draft_tokens: int
    prompt_tokens: int
    finish_reason: str

    @property
    def completion_tokens(self) -> int:
        return sum(step.tokens for step in self.steps)

    @property
    def histogram(self) -> list[int]:
        """[i] = verify steps that accepted exactly i draft tokens; no longer than needed, as SGLang has it."""
        return [self.accepted.count(i) for i in range(max(self.accepted, default=-1) + 1)]


def draw_answer(
    settings: SimSettings, options: SimOptions, prompt_tokens: int, max_tokens: int, rng: random.Random
) -> Answer:
    """Draws an answer of `max_tokens` tokens, or less if `options.accepted` runs out first.

    In a last step that `max_tokens` cuts, only the draft tokens that were given out count as accepted.
    """
    drafts = settings.num_draft_tokens
    prefill_s = settings.prefill_s if options.header_delay_s is None else options.header_delay_s
    steps = [Step(_text(options, 0, 1, rng), 1, prefill_s)]
    accepted: list[int] = []
    left = max_tokens - 1
    while left and (options.accepted is None or len(accepted) < len(options.accepted)):
        if options.accepted is None:
            took = _accepted(drafts, settings.accept_probability, rng)
        else:
            took = min(options.accepted[len(accepted)], drafts)
        took = min(took, left - 1)
        seconds = _seconds(settings.step_s, settings.step_cv, rng) if options.step_s is None else options.step_s
        steps.append(Step(_text(options, len(steps), took + 1, rng), took + 1, seconds))
        accepted.append(took)
        left -= took + 1
    return Answer(
        steps=tuple(steps),
        accepted=tuple(accepted) if drafts else (),
        num_draft_tokens=drafts,
        prompt_tokens=prompt_tokens,
        finish_reason="length" if not left else "stop",
    )


def _accepted(drafts: int, probability: float, rng: random.Random) -> int:
    took = 0
    while took < drafts and rng.random() < probability:
        took += 1
    return took


def _seconds(mean: float, cv: float, rng: random.Random) -> float:
    if not mean or not cv:
        return mean
    sigma2 = math.log1p(cv * cv)
    return rng.lognormvariate(math.log(mean) - sigma2 / 2, math.sqrt(sigma2))


def _text(options: SimOptions, step: int, tokens: int, rng: random.Random) -> str:
    text = options.pieces[step % len(options.pieces)] if options.pieces else ""
    text = text or "".join(f"{rng.choice(_WORDS)} " for _ in range(tokens))
    return text if step else text + "x" * (options.giant_bytes - len(text.encode()))
