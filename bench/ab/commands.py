"""`bench ab`: argv -> design -> turns -> verdict, result file, exit code."""

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from k25serve.bench.load.plan import CLASSES

if TYPE_CHECKING:
    from k25serve.bench.ab.result import Comparison, Look
    from k25serve.bench.ab.run import Campaign
    from k25serve.bench.ab.turn import TurnRun

ARM_HELP = "http://HOST:PORT: an engine that runs. unit:NAME@URL: a systemd unit, started and stopped. Else a profile."
LEVELS_TOLD = "1, 8, 32, 128"
INTERRUPTED = 130


def ab_command(
    context: typer.Context,
    a: Annotated[str, typer.Option("--a", metavar="ARM", help=f"The baseline. {ARM_HELP}")],
    b: Annotated[str, typer.Option("--b", metavar="ARM", help="What may be faster; as --a.")],
    levels: Annotated[
        list[int] | None,
        typer.Option("--level", metavar="N", help=f"Concurrent requests; may be repeated. Default: {LEVELS_TOLD}."),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help=f"Prompt class; may be repeated. Default: {', '.join(CLASSES)}."),
    ] = None,
    contexts: Annotated[
        list[int] | None,
        typer.Option("--context", metavar="TOKENS", help="Synthetic text before each prompt; may be repeated."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=2, help="Output tokens of each request, exactly (ignore_eos).")] = 256,
    requests: Annotated[int, typer.Option(min=1, help="At least so many in a cell; 2 for each stream anyway.")] = 12,
    pairs: Annotated[
        int, typer.Option(help="Turns of each arm; from 3 booted pairs on the verdict is across boots.")
    ] = 4,
    blocks: Annotated[int, typer.Option(help="Of the whole load in each turn: the units where boots are few.")] = 1,
    looks: Annotated[int, typer.Option(help="So many times a verdict may be given, the end included.")] = 1,
    spending: Annotated[
        Literal["obrien-fleming", "pocock"], typer.Option(help="Of alpha on the looks.")
    ] = "obrien-fleming",
    alpha: Annotated[float, typer.Option(help="Chance of any false verdict, all looks and cells together.")] = 0.05,
    power: Annotated[float, typer.Option(help="For the detectable gain that is told.")] = 0.8,
    unit_sd: Annotated[float, typer.Option(help="Assumed spread of a unit's log ratio, for the same.")] = 0.02,
    parity: Annotated[bool, typer.Option(help="Also ask whether both serve the same model.")] = True,
    samples: Annotated[int, typer.Option(min=2, help="Sampled answers to each of 4 prompts, for parity.")] = 40,
    model_a: Annotated[str | None, typer.Option(help="Default: the first that A lists.")] = None,
    model_b: Annotated[str | None, typer.Option(help="Default: the first that B lists.")] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2)] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of prompts and of sampling.")] = 0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for a whole answer.")] = 600.0,
    ready_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until a unit answers; a profile has its own.")
    ] = 7200.0,
    boot_minutes: Annotated[
        float, typer.Option(min=0, help="Assumed for each boot, for the hours that are told.")
    ] = 60.0,
    tpot_ms: Annotated[float, typer.Option(min=0, help="Assumed at concurrency 1, for the same.")] = 15.0,
    systemctl: Annotated[str, typer.Option(metavar="COMMAND", help="E.g. 'sudo -n systemctl'.")] = "systemctl",
    api_key_env: Annotated[str | None, typer.Option(metavar="NAME", help="Environment variable with the key.")] = None,
    notes: Annotated[str, typer.Option(help="Kept in the result file, e.g. what else ran on the machine.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its hours, start nothing.")] = False,
    results: Annotated[
        Path, typer.Option("--results", metavar="DIR", help="The result file goes to DIR/ab/; so do unfinished runs.")
    ] = Path("bench/results"),
) -> None:
    """Is B faster than A? The arms take turns on one box (ABBA), get the same prompts and seeds, and are compared pair
    by pair. The plan, its hours and the gain that it can find are told first; the verdict names its scope.

    Each finished turn is kept: after an interruption the same command goes on from there. Units are left as they were
    found, whatever happens. Exit code: 0 with a verdict ("not settled" is one), 1 where the run is INVALID, 130 where
    it was interrupted.
    """
    import uvloop

    from k25serve.bench.ab.arms import parse_arm
    from k25serve.bench.ab.journal import Journal
    from k25serve.bench.ab.parity.ask import ParityPlan
    from k25serve.bench.ab.plan import LEVELS, Design
    from k25serve.bench.ab.run import Campaign
    from k25serve.bench.ab.systemd import Systemctl
    from k25serve.bench.ab.table import plan_lines, show
    from k25serve.bench.ab.verdict import ab_data, records_of
    from k25serve.bench.load.plan import LoadPlan
    from k25serve.bench.load.progress import counting
    from k25serve.bench.load.prompts import Prompts
    from k25serve.bench.load.records_file import write_result
    from k25serve.bench.provenance import Recorder
    from k25serve.server.errors import UserError

    console = Console(stderr=True, soft_wrap=True)
    arms = {"A": parse_arm("--a", a), "B": parse_arm("--b", b)}
    load = LoadPlan(
        levels=tuple(levels or LEVELS),
        classes=tuple(classes or CLASSES),
        contexts=tuple(contexts or (0,)),
        requests=requests,
        single_stream=False,
        natural=False,
    )
    Prompts().check(load.classes)
    boots = {name: 0.0 if arm.kind == "url" else boot_minutes * 60 for name, arm in arms.items()}
    design = Design(
        load=load,
        pairs=pairs,
        blocks=blocks,
        booted=any(arm.kind != "url" for arm in arms.values()),
        tokens=tokens,
        seed=seed,
        looks=looks,
        spending=spending,
        alpha=alpha,
        power=power,
        unit_sd=unit_sd,
        boot_s=(boots["A"], boots["B"]),
        tpot_s=tpot_ms / 1000,
    )
    words = shlex.split(systemctl)
    if not words:
        raise UserError("--systemctl is empty; leave it out, or pass e.g. 'sudo -n systemctl'")
    for line in plan_lines(design, a, b):
        typer.echo(line, err=True)
    if dry_run:
        return
    recorder = Recorder("ab")
    key = {"a": a, "b": b, "models": [model_a, model_b], "tokens": tokens, "temperature": temperature}
    key |= {
        "plan": design.facts().model_dump(mode="json"),
        "classes": load.classes,
        "requests": requests,
        "samples": samples,
    }
    journal = Journal(results / "ab", key | {"parity": parity})
    total = len(design.order) * blocks * sum(load.count(cell) for cell in load.cells())
    with counting("requests", total, console) as advance:
        campaign = Campaign(
            arms={"A": arms["A"], "B": arms["B"]},
            design=design,
            boot=context.find_root().obj.boot,
            systemctl=Systemctl(words),
            journal=journal,
            say=lambda line: console.print(line, markup=False, highlight=False),
            advance=advance,
            temperature=temperature,
            timeout_s=timeout,
            ready_s=ready_timeout,
            key_env=api_key_env,
            models={"A": model_a, "B": model_b},
            parity=ParityPlan(samples=samples) if parity else None,
        )
        try:
            turns, looked, comparisons = uvloop.run(_run(campaign))
        except asyncio.CancelledError:
            typer.echo(
                f"interrupted: turns that ended are kept in {journal.folder}; the same command goes on", err=True
            )
            raise typer.Exit(INTERRUPTED) from None
    data = ab_data(campaign.arms, design, turns, looked, comparisons)
    path = write_result(recorder, data.model_dump(mode="json"), records_of(turns), results, notes)
    journal.remove()
    show(data, Console())
    typer.echo(f"result: {path}", err=True)
    if not data.valid:
        raise typer.Exit(1)


async def _run(campaign: "Campaign") -> "tuple[list[TurnRun], list[Look], tuple[Comparison, ...]]":
    """SIGTERM and a closed terminal end it as Ctrl-C does: engines stop, units are left as they were found."""
    from k25serve.bench.ab.run import run_turns
    from k25serve.bench.ab.systemd import restored, states
    from k25serve.server.signals import OR_CLOSED, on_stop

    task = asyncio.current_task()
    assert task is not None
    with on_stop(task.cancel, OR_CLOSED):
        units = [arm.name for arm in campaign.arms.values() if arm.kind == "unit"]
        found = campaign.journal.unit_states(await states(units, campaign.systemctl))
        async with restored(found, campaign.systemctl, campaign.journal.forget_units):
            return await run_turns(campaign)
