"""`k25serve deploy prometheus|grafana`: argv -> files. Heavy imports wait inside the commands."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def prometheus(
    profile: Annotated[
        str, typer.Option("--profile", "-p", metavar="NAME|FILE", help="A packaged profile or a YAML file.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the profile. May be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the files there; else print them."),
    ] = None,
    interval: Annotated[int, typer.Option(metavar="SECONDS", help="Time between scrapes, 1 to 75.")] = 15,
    runbook: Annotated[
        str, typer.Option(metavar="URL", help="Where people find RUNBOOK.md: what the alerts' links begin with.")
    ] = "RUNBOOK.md",
) -> None:
    """Make Prometheus's files for a profile: whom to scrape, one name for both engines, alerts."""
    from k25serve.deploy.prometheus.render import check_folder, prometheus_files
    from k25serve.deploy.write import write_files
    from k25serve.server.config import load_profile

    loaded = load_profile(profile, overrides or (), need_models=False)
    files = prometheus_files(loaded, interval_s=interval, runbook=runbook)
    if output is None:
        for name, text in files.items():
            typer.echo(f"### {name}\n{text}")
        return
    check_folder(output)
    write_files(output, files)
    for name in files:
        typer.echo(output / name)


@app.command()
def grafana(
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Write the files there; Grafana must be able to read it.")
    ],
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="The Prometheus that has the rules.")
    ] = "http://127.0.0.1:9090",
) -> None:
    """Write the dashboards, and the provisioning files that put them into a Grafana."""
    from k25serve.deploy.grafana.files import grafana_files
    from k25serve.deploy.write import write_files

    files = grafana_files(output, prometheus)
    write_files(output, files)
    for name in files:
        typer.echo(output / name)
    typer.echo(
        f"\nnext: start Grafana with GF_PATHS_PROVISIONING={output.absolute() / 'provisioning'}, or copy these there"
    )
