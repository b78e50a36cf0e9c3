"""`drafter compare`: the same prompts, several times, through several ways to speculate, none among them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from k25serve.drafters.checkpoint.errors import GateError
from k25serve.drafters.gate.comparison import Comparison, Pass, Row, check_names, compare_rows
from k25serve.drafters.gate.prompts import PromptSet, load_prompts
from k25serve.drafters.gate.result import GateResult
from k25serve.drafters.gate.run import run_gate
from k25serve.drafters.gate.verdict import GateSettings

# Starts a profile's engine, gives its base URL, stops it afterwards.
Boot = Callable[[str], AbstractAsyncContextManager[str]]
PASSES = 3


@dataclass(frozen=True)
class Arm:
    """One way to speculate: an engine that runs already (`url`), or a profile to start."""

    name: str
    url: str | None = None
    profile: str | None = None


def to_pass(result: GateResult) -> Pass:
    """A gate's result as one pass of an arm."""
    return Pass(
        result.tokens_per_second,
        result.overall.counts,
        result.overall.completion_tokens,
        result.seconds,
        len(result.failures),
    )


async def compare(
    arms: Sequence[Arm],
    settings: GateSettings | None = None,
    boot: Boot | None = None,
    baseline: str | None = None,
    passes: int = PASSES,
) -> Comparison:
    """Run the arms in turn, one engine at a time, each `passes` times, and compare. `boot` starts those of profiles.

    A pass of one prompt a class comes before and is discarded. Raises GateError before anything runs where names
    repeat, the baseline is no arm, or an arm has neither an engine nor a profile that can be started; and where an
    engine fails.
    """
    check_names([arm.name for arm in arms], baseline)
    for arm in arms:
        if arm.url is None and (arm.profile is None or boot is None):
            raise GateError(f"arm {arm.name}: has no url, and nothing here starts profiles; give NAME=URL")
    prompts, rows = load_prompts(), []
    for arm in arms:
        async with _engine(arm, boot) as url:
            await run_gate(url, settings, prompts=_warm_up(prompts))
            found = [to_pass(await run_gate(url, settings, prompts=prompts)) for _ in range(passes)]
        rows.append(Row(arm.name, tuple(found)))
    return compare_rows(rows, baseline)


@asynccontextmanager
async def _engine(arm: Arm, boot: Boot | None) -> AsyncIterator[str]:
    if arm.url is not None:
        yield arm.url
    elif arm.profile is not None and boot is not None:
        async with boot(arm.profile) as url:
            yield url


def _warm_up(prompts: PromptSet) -> PromptSet:
    first = {prompt.prompt_class: prompt for prompt in reversed(prompts.prompts)}
    return prompts.model_copy(update={"prompts": tuple(first.values())})
