"""The turns of an A/B, one engine at a time."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from k25serve.bench.ab.arms import ArmSpec, Boot, up
from k25serve.bench.ab.journal import Journal
from k25serve.bench.ab.judge import judge, look_at
from k25serve.bench.ab.parity.ask import ParityPlan, ask_parity
from k25serve.bench.ab.parity.sample import ParitySample
from k25serve.bench.ab.plan import Design
from k25serve.bench.ab.result import Arm, Comparison, Look
from k25serve.bench.ab.systemd import Systemctl
from k25serve.bench.ab.turn import CellRun, TurnRun
from k25serve.bench.ab.units import pair_up
from k25serve.bench.load.client import Client
from k25serve.bench.load.prompts import Prompts, Sampling
from k25serve.bench.load.result import Clock
from k25serve.bench.load.run import own_load, preflight, run_cell, wait_until_served, warm_up_requests, words_per_token


@dataclass(frozen=True, slots=True)
class Campaign:
    """Everything an A/B needs. say: one line to the user. parity: None asks no parity questions."""

    arms: dict[Arm, ArmSpec]
    design: Design
    boot: Boot
    systemctl: Systemctl
    journal: Journal
    say: Callable[[str], None]
    advance: Callable[[], None]
    temperature: float = 0.0
    timeout_s: float = 600.0
    ready_s: float = 7200.0
    key_env: str | None = None
    models: dict[Arm, str | None] = field(default_factory=dict)
    parity: ParityPlan | None = None


async def run_turns(campaign: Campaign) -> tuple[list[TurnRun], list[Look], tuple[Comparison, ...]]:
    """All turns, or as many as the looks need; those in the journal are not run again."""
    design, turns = campaign.design, campaign.journal.turns()
    looks: list[Look] = []
    comparisons: tuple[Comparison, ...] = ()
    for number, name in enumerate(design.order):
        if number < len(turns):
            campaign.say(f"turn {number + 1} of {len(design.order)}, arm {name}: kept from the interrupted run")
        else:
            turn = await _turn(campaign, number, turns)
            turns.append(turn)
            campaign.journal.add(number, turn)
            _tell_rest(campaign, turns)
        pairs, second = divmod(number + 1, 2)
        if second == 0 and pairs in design.look_pairs:
            at = design.look_pairs.index(pairs)
            comparisons = judge(pair_up(turns[: number + 1], design), design, at)
            looks.append(look_at(comparisons, design, at))
            if looks[-1].stopped:
                return turns[: number + 1], looks, comparisons
    return turns, looks, comparisons


def arm_of(letter: str) -> Arm:
    return "A" if letter == "A" else "B"


async def _turn(campaign: Campaign, number: int, before: list[TurnRun]) -> TurnRun:
    design = campaign.design
    name, pair = arm_of(design.order[number]), number // 2
    arm = campaign.arms[name]
    campaign.say(f"turn {number + 1} of {len(design.order)}, arm {name}: {arm.spec}")
    begun = time.perf_counter()
    async with _asked(campaign, name, arm) as client:
        served = await preflight(client, campaign.models.get(name), f"--{name.lower()}")
        boot_s = 0.0 if arm.kind == "url" else time.perf_counter() - begun
        scale = await _words_per_token(design, client, served.model, before)
        prompts = Prompts(scale)
        sampling = Sampling(served.model, design.tokens, design.tokens, campaign.temperature, design.seed)
        zero, wall = time.perf_counter(), time.time()
        runs: list[CellRun] = []
        for block in range(design.blocks):
            for cell in design.load.cells():
                salt = f"pair{pair}/block{block}"
                if block == 0:
                    warm = warm_up_requests(prompts, cell, cell.level, design.load.classes, sampling, salt)
                    await own_load(client)(warm, cell.level, lambda: None)
                count = design.load.count(cell)
                asked = prompts.requests(cell, count, design.load.classes, sampling, salt)
                local = client.endpoint.is_local
                ran = await run_cell(own_load(client), cell, asked, zero, campaign.advance, local=local)
                runs.append(
                    CellRun(
                        block=block,
                        cell=cell,
                        records=ran.records,
                        client_cpu_share=ran.client_cpu_share,
                        joules=ran.joules,
                    )
                )
        clock = Clock(monotonic_s=time.perf_counter() - zero, wall_s=time.time() - wall)
        parity = await _parity(campaign, client, served.model, name, before)
    return TurnRun(
        arm=name,
        pair=pair,
        endpoint=client.endpoint.chat,
        model=served.model,
        server=served.facts,
        words_per_token=scale,
        boot_s=boot_s,
        seconds=time.perf_counter() - begun,
        clock=clock,
        runs=tuple(runs),
        parity=parity,
    )


@asynccontextmanager
async def _asked(campaign: Campaign, name: Arm, arm: ArmSpec) -> AsyncIterator[Client]:
    """The arm's engine, up and answering."""
    async with (
        up(arm, campaign.boot, campaign.systemctl) as endpoint,
        Client(endpoint, campaign.timeout_s, campaign.key_env) as client,
    ):
        if arm.kind == "unit":
            await wait_until_served(client, campaign.ready_s, f"--{name.lower()}")
        yield client


async def _words_per_token(design: Design, client: Client, model: str, before: list[TurnRun]) -> float:
    """Measured once: both arms must be asked the same words."""
    if before:
        return before[0].words_per_token
    return await words_per_token(client, model) if any(design.load.contexts) else 1.0


async def _parity(
    campaign: Campaign, client: Client, model: str, name: Arm, before: list[TurnRun]
) -> tuple[ParitySample, ...]:
    """A's first turn, B's first, and A's second; where A has a single turn, twice in it."""
    done = sum(turn.arm == name for turn in before)
    wanted = {"A": 2, "B": 1}[name]
    if campaign.parity is None or done >= wanted:
        return ()
    passes = wanted if name == "A" and campaign.design.pairs == 1 else 1
    campaign.say(f"parity questions to arm {name}")
    plan, seed = campaign.parity, campaign.design.seed
    return tuple([await ask_parity(client, model, seed, plan, campaign.design.load.classes) for _ in range(passes)])


def _tell_rest(campaign: Campaign, turns: list[TurnRun]) -> None:
    left = campaign.design.order[len(turns) :]
    if left:
        mean = {arm: [turn.seconds for turn in turns if turn.arm == arm] for arm in ("A", "B")}
        every = [turn.seconds for turn in turns]
        seconds = sum(sum(mean[arm] or every) / len(mean[arm] or every) for arm in left)
        campaign.say(f"about {seconds / 3600:.1f} h left, as the turns so far went")
