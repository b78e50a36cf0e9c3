"""`bench report`: argv -> files -> document -> HTML, Markdown."""

from pathlib import Path
from typing import Annotated

import typer

from k25serve.bench.default_group import DefaultGroup

app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="One report out of result files. `bench report FILES` is `bench report page FILES`.",
)

Files = Annotated[list[Path], typer.Argument(metavar="FILE|DIR...", help="Result files, or folders of them.")]
CampaignFile = Annotated[
    Path | None,
    typer.Option("--campaign", metavar="FILE", help="Goal, targets and what is ruled out (YAML). Default: packaged."),
]


@app.command()
def page(
    paths: Files,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML page.")],
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as Markdown.")] = None,
    campaign: CampaignFile = None,
    title: Annotated[str, typer.Option(help="Above the verdict.")] = "k25serve report",
) -> None:
    """Verdict, throughput, time per token, acceptance, traces, predictions, parity, provenance: one HTML page.

    The page asks nothing of any network. What no file tells is named under "Not measured".
    """
    from k25serve.bench.report import html
    from k25serve.bench.report import markdown as as_markdown
    from k25serve.bench.report.build import build
    from k25serve.bench.report.campaign import load_campaign
    from k25serve.bench.report.sources import read_sources
    from k25serve.server.outputs import check_file

    check_file("--out", out)
    check_file("--markdown", markdown)
    document = build(read_sources(paths), load_campaign(campaign), title)
    out.write_text(html.render(document), encoding="utf-8")
    if markdown is not None:
        markdown.write_text(as_markdown.render(document), encoding="utf-8")
    typer.echo(document.verdict)
    typer.echo(f"report: {', '.join(str(path) for path in (out, markdown) if path is not None)}", err=True)


@app.command()
def state(
    paths: Files,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: standard output.")] = None,
    campaign: CampaignFile = None,
) -> None:
    """Where the campaign stands, as Markdown: goal, constraints, discoveries, done, running, next, files."""
    from k25serve.bench.report import markdown as as_markdown
    from k25serve.bench.report.campaign import load_campaign
    from k25serve.bench.report.sources import read_sources
    from k25serve.bench.report.state import state as build
    from k25serve.server.outputs import check_file

    check_file("--out", out)
    text = as_markdown.render(build(read_sources(paths), load_campaign(campaign)))
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
