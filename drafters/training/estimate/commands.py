"""`k25serve drafter train estimate`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from k25serve.drafters.training.one_line import one_line_errors

Machine = Annotated[str, typer.Option(metavar="NAME|FILE", help="A packaged machine, or a YAML file like those.")]


def estimate_command(
    samples: Annotated[int | None, typer.Option(help="Conversations to train on.")] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Mean length of a prompt.")] = None,
    generated_tokens: Annotated[int | None, typer.Option(help="Mean length of an answer.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the samples.")] = None,
    regenerate: Annotated[bool, typer.Option(help="The target writes the answers anew.")] = True,
    machine: Machine = "rtx-pro-6000-server-x8",
    target: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The target; only config.json is read. By default Kimi-K2.5's."),
    ] = None,
    ttt_steps: Annotated[int | None, typer.Option(help="Steps that the drafter is unrolled in training.")] = None,
    draft_vocab_size: Annotated[int | None, typer.Option(help="The drafter's vocabulary.")] = None,
    draft_intermediate_size: Annotated[int | None, typer.Option(help="Width of its MLP; the target's.")] = None,
    max_length: Annotated[int | None, typer.Option(help="The longest training sequence.")] = None,
    price_per_gpu_hour: Annotated[float | None, typer.Option(help="Also tell the cost, in the same money.")] = None,
    disk_tb: Annotated[float | None, typer.Option(help="Free for hidden states, 1e12 bytes; else enough.")] = None,
    hours: Annotated[float | None, typer.Option(help="Hours that may be spent in all.")] = None,
    profile: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="The engine's profile, for the commands of --write.")
    ] = "k25-int4-sm120x8-nospec",
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the plan of the whole run there, as Markdown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Hours, disk, memory and cost of the whole run on a machine, before it is paid for."""
    from k25serve.drafters.training.estimate import EstimateOptions, estimate
    from k25serve.drafters.training.settings import validated

    given: dict[str, Any] = {
        "samples": samples,
        "prompt_tokens": prompt_tokens,
        "generated_tokens": generated_tokens,
        "epochs": epochs,
        "target": target,
        "ttt_steps": ttt_steps,
        "draft_vocab_size": draft_vocab_size,
        "draft_intermediate_size": draft_intermediate_size,
        "max_length": max_length,
        "price_per_gpu_hour": price_per_gpu_hour,
        "disk_tb": disk_tb,
        "hours": hours,
    }
    values = {key: value for key, value in given.items() if value is not None}
    values |= {"regenerate": regenerate, "machine": machine}
    with one_line_errors():
        found = estimate(validated(EstimateOptions, values, _option))
        if write is not None:
            from k25serve.drafters.training.estimate.document import write_document

            write_document(found, profile, write)
            typer.echo(f"written: {write}", err=True)
        if as_json:
            return typer.echo(json.dumps(found.as_json(), indent=2))
        from rich.console import Console

        from k25serve.drafters.training.estimate.table import estimate_table

        Console().print(estimate_table(found))


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
