"""`k25serve drafter train vocab`."""

from pathlib import Path
from typing import Annotated

import typer

from k25serve.drafters.training.one_line import one_line_errors


def vocab(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="What `drafter train data` wrote.")],
    target: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The target's folder; config and token tables are read.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="A new folder for vocab.safetensors, report.json and counts.json.")
    ],
    draft_vocab_size: Annotated[
        int, typer.Option(min=0, metavar="N", help="Tokens that the drafter can draft; 0: all of the target's.")
    ] = 32000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of a table.")] = False,
) -> None:
    """Choose the drafter's vocabulary by how often the answers in train/ hold each token.

    End tokens, think marks and tool marks are always kept. The report says, by class, how much of the held-out
    answers the vocabulary covers: a token outside is never drafted, which costs speed, never correctness.
    counts.json is what `k25serve drafter adapt --counts` reads.
    """
    from k25serve.drafters.training.progress import Shown
    from k25serve.drafters.training.vocab.build import build
    from k25serve.drafters.training.vocab.options import VocabOptions
    from k25serve.drafters.training.vocab.report import coverage_table

    with one_line_errors():
        options = VocabOptions(draft_vocab_size=draft_vocab_size or None)
        with Shown() as progress:
            report = build(options, data, target, out, progress)
    if as_json:
        return typer.echo(report.model_dump_json(indent=2))
    from rich.console import Console

    Console().print(coverage_table(report))
    typer.echo(f"written: {out}")
