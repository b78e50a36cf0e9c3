"""`k25serve ab ...`: an experiment on live traffic, seen and stopped through its state file."""

import dataclasses
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from k25serve.server.config import load_profile
from k25serve.server.errors import ConfigError

if TYPE_CHECKING:
    from k25serve.server.gateway.experiment.analysis import Analysis
    from k25serve.server.gateway.experiment.store import Store

NOT_BELIEVABLE = 3

app = typer.Typer(
    no_args_is_help=True,
    help="An experiment between arms of the gateway on live traffic (`gateway.experiment` of a profile): look at it as "
    "often as you like, and stop it.",
)
console = Console(soft_wrap=True)

ProfileName = Annotated[
    str | None, typer.Option("--profile", "-p", metavar="NAME|FILE", help="The profile whose gateway runs it.")
]
StateFile = Annotated[
    Path | None, typer.Option("--state", metavar="FILE", help="Its state file, in place of --profile.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command()
def status(profile: ProfileName = None, state: StateFile = None, as_json: AsJson = False) -> None:
    """Which arm gets what, what was counted, what was stopped and why."""
    from k25serve.server.gateway.experiment import report

    analysis, now = _analysis(_path(profile, state))
    going = report.state(analysis, now)
    if as_json:
        return _print_json(analysis, state=going)
    settings = analysis.settings
    console.print(f"experiment {settings.name} ({settings.mode}), control {settings.control}: {going}", highlight=False)
    console.print(report.arms_table(analysis))
    for stop in analysis.stops:
        console.print(f"{stop.arm}: {stop.reason}: {stop.detail}", markup=False, highlight=False)


@app.command("report", epilog=f"Exit codes: 0; {NOT_BELIEVABLE}: the effects can't be believed; 2: no such experiment.")
def show_report(profile: ProfileName = None, state: StateFile = None, as_json: AsJson = False) -> None:
    """What was found. The intervals hold at every look, so that one may look daily and stop when it is clear."""
    from k25serve.server.gateway.experiment import report

    analysis, now = _analysis(_path(profile, state))
    if as_json:
        _print_json(analysis, state=report.state(analysis, now), sentences=list(report.sentences(analysis)))
    else:
        for sentence in report.sentences(analysis):
            console.print(sentence, markup=False, highlight=False)
        console.print(report.effects_table(analysis))
        console.print(report.arms_table(analysis))
    if not analysis.believable:
        raise typer.Exit(NOT_BELIEVABLE)


@app.command()
def stop(profile: ProfileName = None, state: StateFile = None) -> None:
    """Send every conversation to the control arm. A gateway that runs heeds it within seconds; it holds for good."""
    from k25serve.server.gateway.experiment.store import BY_HAND, Stop, stop_store

    with _reading(_path(profile, state), stop_store) as store:
        settings, now = store.settings(), time.time()
        before = {one.arm: one for one in store.stops()}
        store.stop([Stop(arm, now, BY_HAND, "k25serve ab stop") for arm in settings.treatments])
    console.print(f"experiment {settings.name}: everything goes to {settings.control}", highlight=False)
    tripped = before.get(settings.control)
    if tripped is not None:
        console.print(f"although it was stopped: {tripped.reason}: {tripped.detail}", markup=False, highlight=False)


def _path(profile: str | None, state: Path | None) -> Path:
    if (profile is None) == (state is None):
        raise ConfigError("give either --profile or --state: which experiment is meant")
    if state is not None:
        return state
    assert profile is not None
    experiment = load_profile(profile, need_models=False).gateway.experiment
    if experiment is None:
        raise ConfigError(f"profile {profile}: has no gateway.experiment; add one, or give --state")
    return experiment.state


def _analysis(path: Path) -> tuple["Analysis", float]:
    from k25serve.server.gateway.experiment.analysis import analyse
    from k25serve.server.gateway.experiment.store import read_store

    now = time.time()
    with _reading(path, read_store) as store:
        return analyse(store, now), now


@contextmanager
def _reading(path: Path, open_it: Callable[[Path], "Store"]) -> Iterator["Store"]:
    store = open_it(path)
    try:
        yield store
    except sqlite3.Error as error:
        raise ConfigError(f"gateway.experiment.state {str(path)!r}: {error}; see to the file and its rights") from error
    finally:
        store.close()


def _print_json(analysis: "Analysis", **more: Any) -> None:
    plain = {
        "settings": analysis.settings.model_dump(mode="json"),
        "stops": [one._asdict() for one in analysis.stops],
        "believable": analysis.believable,
    }
    typer.echo(json.dumps(dataclasses.asdict(analysis) | plain | more, indent=1))
