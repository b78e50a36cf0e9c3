"""`k25serve drafter train data`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data.options import Format, Thinking
from k25serve.drafters.training.one_line import one_line_errors


def data(
    context: typer.Context,
    target: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The target's folder: its tokenizer and chat template are used.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where train/, held_out/ and report.json go.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input", metavar="PATH", help="A .jsonl, .jsonl.gz, .json or .parquet file, or a folder of them. Repeat."
        ),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="The form of the rows; auto tells it from each row's keys.")
    ] = Format.AUTO,
    packaged: Annotated[
        int, typer.Option(min=0, metavar="N", help="Also N training chats of the packaged tiny target; no download.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of the order, of --max-conversations and of --packaged.")] = 0,
    max_length: Annotated[int, typer.Option(min=2, help="Tokens after which a row is cut.")] = 4096,
    max_conversations: Annotated[
        int | None, typer.Option(min=1, help="Keep at most so many conversations, a random choice.")
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the conversations that is never trained on.")
    ] = 0.05,
    thinking: Annotated[
        Thinking,
        typer.Option(
            help="as-is: with reasoning where an answer has it; on: only such answers count; off: none is kept."
        ),
    ] = Thinking.AS_IS,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count and skip rows that cannot be used, instead of stopping.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the target folder's own Python files (Kimi's tokenizer).")
    ] = False,
    regenerate: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A gateway or engine whose own answers replace those of the inputs."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="With --regenerate: the served model's name; by default the first listed.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="With --regenerate: of the sampled answers.")] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="With --regenerate: the most tokens of an answer; a cut one is left out.")
    ] = 4096,
    concurrency: Annotated[
        int, typer.Option(min=1, help="With --regenerate: how many conversations run at the same time.")
    ] = 16,
    retries: Annotated[
        int, typer.Option(min=0, help="With --regenerate: how often a request is tried again, later and later.")
    ] = 5,
    workers: Annotated[int, typer.Option(min=1, help="Processes that tokenize.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of tables.")] = False,
) -> None:
    """Conversations to token ids with a mask of what the assistant wrote, split into train and held out.

    Rows: OpenAI's {messages, tools?, label?} (requests, fine-tuning files, logs), ShareGPT's {conversations: [{from,
    value}]}, open-perfectblend's (ShareGPT's with a source). Duplicates, images and conversations without an answer
    are left out and counted. The same inputs and seed give the same hashes; a finished folder is not made again.
    With --regenerate each finished answer is kept in FOLDER/answers.jsonl: a run that was stopped goes on.
    """
    from k25serve.drafters.training.data.options import DataOptions
    from k25serve.drafters.training.data.prepare import prepare
    from k25serve.drafters.training.data.report import report_tables
    from k25serve.drafters.training.progress import Shown
    from k25serve.drafters.training.settings import validated

    values: dict[str, Any] = {
        "inputs": tuple(inputs or ()),
        "format": form,
        "packaged": packaged,
        "seed": seed,
        "max_length": max_length,
        "max_conversations": max_conversations,
        "held_out": held_out,
        "thinking": thinking,
        "skip_bad": skip_bad,
        "trust_remote_code": trust_remote_code,
        "workers": workers,
    }
    if regenerate is not None:
        values["regenerate"] = {
            "url": regenerate,
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "concurrency": concurrency,
            "retries": retries,
        }
    with one_line_errors():
        if regenerate is None:
            _refuse_idle(context)
        options = validated(DataOptions, values, _option)
        with Shown() as progress:
            report = prepare(options, target, out, progress)
    if as_json:
        return typer.echo(report.model_dump_json(indent=2))
    from rich.console import Console

    for table in report_tables(report):
        Console().print(table)
    typer.echo(f"written: {out}")


def _refuse_idle(context: typer.Context) -> None:
    """Raises TrainingError for an option that would do nothing without --regenerate."""
    for name in ("model", "temperature", "max_tokens", "concurrency", "retries"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise TrainingError(f"--{name.replace('_', '-')}: says how to regenerate; add --regenerate URL, or drop it")


def _option(key: str) -> str:
    """How the user writes a setting."""
    if key in ("", "inputs"):
        return "--input" if key else ""
    return "--" + key.replace("regenerate.url", "regenerate").removeprefix("regenerate.").replace("_", "-")
