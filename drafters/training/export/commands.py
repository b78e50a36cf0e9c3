"""`k25serve drafter train export`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from k25serve.drafters.training.one_line import one_line_errors


def export_command(
    run: Annotated[Path, typer.Option(metavar="FOLDER", help="RUN, with the fitted drafter in it.")],
    target: Annotated[Path, typer.Option(metavar="FOLDER", help="The target's folder.")],
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A new folder; RUN/drafter.")] = None,
    context_length: Annotated[
        int | None, typer.Option(help="The context length to be served; by default the target's own maximum.")
    ] = None,
) -> None:
    """Write the trained drafter as the folder that SGLang loads. It must pass `k25serve drafter check`, or nothing is
    written.
    """
    from k25serve.drafters.training.export.options import ExportOptions
    from k25serve.drafters.training.settings import validated

    given: dict[str, Any] = {"context_length": context_length}
    with one_line_errors():
        options = validated(ExportOptions, given, lambda key: f"--{key.replace('_', '-')}")
        from k25serve.drafters.training.export.run import export

        done = export(options, run, target, out or run / "drafter")
    from k25serve.drafters.check.report import Verdict

    for finding in done.report.with_verdict(Verdict.WARN):
        typer.echo(f"check warns, rule {finding.rule}: {finding.evidence}; {finding.remedy}")
    typer.echo(f"written: {done.folder}; it passes `k25serve drafter check`")
