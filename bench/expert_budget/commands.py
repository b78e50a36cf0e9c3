"""`bench expert-budget`: boots, questions, a table, a result file."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from k25serve.bench.expert_budget.agreement import Agreement


def expert_budget_command(
    budgets: Annotated[list[int], typer.Option("--budget", "-b", min=1, help="Experts a layer. May be repeated.")],
    profile: Annotated[str, typer.Option("--profile", "-p", metavar="NAME|FILE")] = "cpu-tiny",
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="May be repeated.")] = None,
    prompts: Annotated[int, typer.Option(min=1, max=50, help="Of the gate's packaged prompts.")] = 50,
    tokens: Annotated[int, typer.Option(min=2, help="Of each answer, whatever the model would do.")] = 128,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests that share a verify step's budget.")] = 1,
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a result under DIR/expert-budget/.")
    ] = None,
) -> None:
    """What the LOSSY patch lossy_expert_budget does to greedy answers: how many agree, and where they part.

    The profile's engine is booted once without it, and asked twice: what parts there is numerics. Then once a budget.
    """
    from dataclasses import asdict

    from k25serve.bench.provenance import Recorder, write
    from k25serve.drafters.gate.prompts import FILE
    from k25serve.server.outputs import check_folder

    check_folder("--results", results)
    recorder = Recorder("expert-budget")
    rows = asyncio.run(_measure(profile, overrides or [], budgets, prompts, tokens, concurrency))
    console = Console()
    console.print(_table(rows))
    if results is not None:
        data = {
            "profile": profile,
            "set": overrides or [],
            "prompts": prompts,
            "tokens": tokens,
            "concurrency": concurrency,
            "rows": [{"budget": budget, **asdict(agreement)} for budget, agreement in rows],
        }
        typer.echo(f"result: {write(recorder.finish(data, [FILE]), results)}", err=True)


async def _measure(
    name: str, overrides: list[str], budgets: list[int], count: int, tokens: int, concurrency: int
) -> list[tuple[int | None, "Agreement"]]:
    """(budget, agreement) with the engine that has none; budget None is that engine's second pass."""
    from k25serve.bench.expert_budget.agreement import compare
    from k25serve.bench.expert_budget.ask import Answer, ask
    from k25serve.drafters.gate.prompts import load_prompts
    from k25serve.server.config import load_profile
    from k25serve.server.engine.readiness import engine_url
    from k25serve.server.engine.supervise import announce_ready, running_engine

    console, packaged = Console(stderr=True, soft_wrap=True), load_prompts()
    # All faults of the options are found before the first boot.
    profiles = [load_profile(name, overrides)] + [
        load_profile(name, [*overrides, f"patches.lossy_expert_budget.budget={budget}"]) for budget in budgets
    ]
    passes: list[list[Answer]] = []
    for index, profile in enumerate(profiles):
        async with running_engine(profile, console) as engine:
            await announce_ready(engine, profile, console)
            for _ in range(2 if index == 0 else 1):
                passes.append(await ask(engine_url(profile), packaged, count, tokens, concurrency))
    labels = [None, *budgets]
    return [(label, compare(answers, passes[0])) for label, answers in zip(labels, passes[1:], strict=True)]


def _table(rows: list[tuple[int | None, "Agreement"]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("budget", "identical", "tokens before the parting", "parts per token", "median", "accept"):
        table.add_column(column, justify="right")
    for budget, agreement in rows:
        parted = sorted(at for at in agreement.first if at is not None)
        table.add_row(
            "none, again" if budget is None else str(budget),
            f"{agreement.identical:.0%}",
            f"{agreement.agreed:.1%}",
            f"{agreement.per_token:.4f}",
            str(parted[len(parted) // 2]) if parted else "-",
            f"{agreement.accept_length:.2f}",
        )
    return table
