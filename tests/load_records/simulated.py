"""Turns of an A/B without a wait: engine_sim's own draws, put on a clock."""

import functools
import heapq
import math
import random
from dataclasses import dataclass

from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.result import Arm
from k25serve.bench.ab.turn import CellRun, TurnRun
from k25serve.bench.engine_sim.draw import Answer, draw_answer
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings
from k25serve.bench.load.plan import LoadPlan
from k25serve.bench.load.prompts import Prompts, Sampling
from k25serve.bench.load.record import Asked, Cell, RequestRecord, Speculation, Tokens
from k25serve.bench.load.result import Clock

LOAD = LoadPlan(levels=(1,), classes=("code",), requests=4, single_stream=False, natural=False)
TOKENS = 16
PROMPT_TOKENS = 60
TAIL_S = 0.0002  # from the last token to [DONE]


@dataclass(frozen=True)
class Box:
    """One machine. boot_sd: of the logarithm of a boot's speed, which every request of that boot shares."""

    engine: SimSettings
    boot_sd: float = 0.02


def design(**changes) -> Design:
    fields = {"load": LOAD, "pairs": 4, "blocks": 1, "booted": True, "tokens": TOKENS}
    return Design(**(fields | changes))


@functools.lru_cache(maxsize=400)
def turns(plan: Design, box: Box, seed: int, gain: float = 1.0) -> list[TurnRun]:
    """All turns of an A/B in which B needs 1 / `gain` of A's time, on average over boots."""
    return [
        _turn(plan, box, f"{seed}/{number}", "A" if letter == "A" else "B", number // 2, gain if letter == "B" else 1.0)
        for number, letter in enumerate(plan.order)
    ]


def _turn(plan: Design, box: Box, seed: str, arm: Arm, pair: int, gain: float) -> TurnRun:
    rng = random.Random(seed)
    slow = math.exp(rng.gauss(0, box.boot_sd)) / gain
    engine = box.engine.model_copy(
        update={"prefill_s": box.engine.prefill_s * slow, "step_s": box.engine.step_s * slow}
    )
    runs = [
        CellRun(block=block, cell=cell, records=tuple(_records(plan, cell, pair, block, engine, rng)))
        for block in range(plan.blocks)
        for cell in plan.load.cells()
    ]
    return TurnRun(
        arm=arm,
        pair=pair,
        endpoint="http://sim/v1/chat/completions",
        model="sim",
        server={},
        words_per_token=1.0,
        boot_s=60.0,
        seconds=120.0,
        clock=Clock(monotonic_s=60.0, wall_s=60.0),
        runs=tuple(runs),
    )


def _records(
    plan: Design, cell: Cell, pair: int, block: int, engine: SimSettings, rng: random.Random
) -> list[RequestRecord]:
    """A closed loop: whichever of the streams is free first asks next."""
    free = [0.0] * cell.level
    found = []
    for asked in _asked(plan.load, cell, pair, block, plan.tokens):
        answer = draw_answer(engine, SimOptions(pieces=("x",)), PROMPT_TOKENS, plan.tokens, rng)
        sent = heapq.heappop(free)
        one = _record(cell, asked, sent, answer)
        heapq.heappush(free, sent + one.ended_s)
        found.append(one)
    return found


@functools.cache
def _asked(load: LoadPlan, cell: Cell, pair: int, block: int, tokens: int) -> tuple[Asked, ...]:
    sampling = Sampling("sim", tokens, tokens, 0.0, 0)
    requests = Prompts().requests(cell, load.count(cell), load.classes, sampling, f"pair{pair}/block{block}")
    return tuple(request.asked for request in requests)


def _record(cell: Cell, asked: Asked, sent: float, answer: Answer) -> RequestRecord:
    times, at = [], 0.0
    for step in answer.steps:
        at += step.seconds
        times.append(at)
    ended = at + TAIL_S
    steps = len(answer.accepted)
    speculation = Speculation(steps=steps, proposed=3 * steps, accepted=sum(answer.accepted)) if steps else None
    return RequestRecord(
        cell=cell,
        asked=asked,
        sent_s=sent,
        ended_s=ended,
        wall_sent=1e9 + sent,
        wall_ended=1e9 + sent + ended,
        chunk_s=(*times, ended),
        chunk_kinds="a" * len(times) + "d",
        status=200,
        finish_reason=answer.finish_reason,
        tokens=Tokens(prompt=answer.prompt_tokens, completion=answer.completion_tokens, cached=0),
        speculation=speculation,
    )
