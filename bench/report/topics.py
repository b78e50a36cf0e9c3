"""The report's sections in their order, each with what has to be run to get it."""

from collections.abc import Callable
from dataclasses import dataclass

from k25serve.bench.report.document import Block
from k25serve.bench.report.sections import acceptance, links, parity, prediction, speed, trace, verdict
from k25serve.bench.report.sources import Sources


@dataclass(frozen=True, slots=True)
class Topic:
    """build: no blocks where the files for it are missing. needs: a command that makes them."""

    key: str
    title: str
    build: Callable[[Sources], tuple[Block, ...]]
    needs: str


def topics() -> tuple[Topic, ...]:
    """All of them."""
    sweep = "k25serve bench load --url URL, or bench ab"
    return (
        Topic("ab", "A against B", verdict.against, "k25serve bench ab --a A --b B"),
        Topic("drafters", "Ways to speculate", verdict.drafters, "k25serve drafter compare NAME=URL... --out DIR"),
        Topic("throughput", "Throughput against concurrency", speed.throughput, sweep),
        Topic("tpot", "Time per output token against concurrency", speed.tpot, sweep),
        Topic("position", "Acceptance by position", acceptance.by_position, f"{sweep} of an engine that speculates"),
        Topic("class", "Acceptance by class of prompts", acceptance.by_class, "k25serve bench load, or drafter gate"),
        Topic("modality", "Acceptance by modality", acceptance.by_modality, "a load run with prompts of class image"),
        Topic("ttft", "Time to first token", speed.ttft, sweep),
        Topic("frontier", "Tokens/s/user against tokens/s/GPU", speed.frontier, sweep),
        Topic("trace", "Where a step's time goes", trace.steps, "k25serve bench trace DIR --results DIR"),
        Topic("plan", "Prediction and measurement", prediction.predictions, "k25serve bench plan --results DIR"),
        Topic("parity", "Parity", parity.parity, "k25serve bench ab (its parity audit)"),
        Topic("links", "Links between GPUs", links.links, "k25serve bench comm --results DIR"),
    )
