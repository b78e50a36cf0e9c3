"""`k25serve prove`: argv -> configuration -> campaign -> exit code."""

import asyncio
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from k25serve.bench.load.plan import CLASSES, LEVELS

if TYPE_CHECKING:
    from k25serve.bench.prove.configuration import Configuration
    from k25serve.bench.prove.step import Arm

URL = "http://127.0.0.1:8000"
INTERRUPTED = 130


def prove_command(
    context: typer.Context,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For results and the journal; the same DIR goes on.")
    ] = None,
    profiles: Annotated[
        list[str] | None, typer.Option("--profile", "-p", metavar="NAME|FILE", help="What may be faster; repeatable.")
    ] = None,
    baseline_url: Annotated[
        str | None, typer.Option(metavar="URL", help=f"Where the baseline serves. With --baseline-unit: {URL}.")
    ] = None,
    baseline_unit: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its systemd unit: stopped for the profiles, started again.")
    ] = None,
    baseline_kv: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its KV cache's type, where it doesn't tell: vLLM doesn't.")
    ] = None,
    single: Annotated[float, typer.Option(metavar="TOK/S", help="Target: more than, of one stream (1 / TPOT).")] = 82.5,
    total: Annotated[float, typer.Option(metavar="TOK/S", help="Target: at least, at --total-level.")] = 1536.0,
    total_level: Annotated[int, typer.Option(min=1, metavar="N", help="Concurrent requests of that target.")] = 128,
    levels: Annotated[
        list[int] | None,
        typer.Option("--level", metavar="N", help=f"Concurrent requests; repeatable. Default: {LEVELS}."),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help=f"Prompt class; repeatable. Default: {', '.join(CLASSES)}."),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="At least so many in a cell; 2 for each stream anyway.")] = 12,
    tokens: Annotated[int, typer.Option(min=2, help="Output tokens of each request, exactly (ignore_eos).")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Of prompts and of sampling.")] = 0,
    calibration: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Whose curve's shape and draft cost the plan takes.")
    ] = "rtx6kpro-k26-v4",
    boot_minutes: Annotated[float, typer.Option(min=0, help="Assumed for a load, for the hours told.")] = 60.0,
    tpot_ms: Annotated[float, typer.Option(min=0, help="Assumed at concurrency 1, for the same.")] = 15.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for a whole answer.")] = 600.0,
    ready_timeout: Annotated[float, typer.Option(min=1, help="Seconds until the unit answers.")] = 7200.0,
    systemctl: Annotated[str, typer.Option(metavar="COMMAND", help="E.g. 'sudo -n systemctl'.")] = "systemctl",
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable with the baseline's key.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Stop the unit without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print steps and hours, start nothing.")] = False,
    restore: Annotated[
        Path | None, typer.Option("--restore", metavar="DIR", help="Only put the unit back that a killed run left.")
    ] = None,
) -> None:
    """Is it faster than what serves now? The whole campaign: doctor, links, drafter gate, a sweep and a trace of each
    engine, the plan beside the measurement, a verdict on your targets, a report.

    Steps and hours come first. Each finished step is kept in DIR: after an interruption, SIGKILL included, the same
    command goes on, and nothing is done twice. The unit is as it was found at the end, on failure and on a signal;
    after a SIGKILL at the end of the next run, or at once with --restore DIR. Nobody else should use the baseline
    meanwhile.

    Exit code: 0 where all targets are met, 3 where one is missed or not settled, 1 where a step failed, 2 for bad
    input, 130 where it was interrupted.
    """
    import uvloop

    from k25serve.bench.ab.systemd import Systemctl
    from k25serve.bench.prove import campaign
    from k25serve.bench.prove.configuration import Configuration, Targets, fingerprint
    from k25serve.bench.prove.journal import Journal, alone
    from k25serve.bench.prove.production import Box, bring_back
    from k25serve.bench.prove.run import pending, run_campaign
    from k25serve.bench.prove.step import Scene
    from k25serve.server.errors import UserError
    from k25serve.server.outputs import check_folder

    say = _teller()
    if restore is not None:
        uvloop.run(bring_back(restore, say))
        return
    if output is None:
        raise UserError("--output is missing: name a folder for results, e.g. --output campaign")
    words = tuple(shlex.split(systemctl))
    if not words:
        raise UserError("--systemctl is empty; leave it out, or pass e.g. 'sudo -n systemctl'")
    if baseline_url is None and baseline_unit is None:
        raise UserError("no baseline: pass --baseline-url URL, or --baseline-unit NAME for one that may be stopped")
    if not profiles or len(set(profiles)) < len(profiles):
        raise UserError(f"--profile {', '.join(profiles or ['(none)'])}: give each once, at least one")
    wanted = Configuration(
        baseline_url=baseline_url or URL,
        baseline_unit=baseline_unit,
        profiles=tuple(profiles),
        profile_sha256=tuple(map(fingerprint, profiles)),
        levels=tuple(levels or LEVELS),
        classes=tuple(classes or CLASSES),
        requests=requests,
        tokens=tokens,
        seed=seed,
        baseline_kv=baseline_kv,
        calibration=calibration,
        targets=Targets(
            single_tok_s=_number("--single", single), total_tok_s=_number("--total", total), total_level=total_level
        ),
        systemctl=words,
    )
    arms = _arms(wanted)
    steps = campaign.steps_of(wanted, arms, _number("--tpot-ms", tpot_ms) / 1000)
    _check(wanted)
    check_folder("--output", output)
    if not math.isfinite(boot_minutes):
        raise UserError(f"--boot-minutes {boot_minutes}: must be a number")
    if dry_run:
        for line in campaign.told(wanted, steps, boot_minutes):
            say(line)
        return
    with alone(output):
        journal = Journal.open(output)
        if journal is not None and (differing := wanted.differences(journal.state.configuration)):
            stopped = "" if journal.state.production is None else f"; a unit may be stopped: --restore {output}"
            raise UserError(
                f"--output {output}: holds another campaign ({'; '.join(differing)}); give another{stopped}"
            )
        left = list(steps) if journal is None else pending(steps, journal)
        for line in campaign.told(wanted, left, boot_minutes):
            say(line)
        if campaign.stops_unit(wanted, left) and not yes:
            _confirm(wanted)
        if journal is None:
            journal = Journal.begin(output, wanted)
        elif not any(journal.finished(f"sweep-{arm.key}") for arm in arms):
            journal.new_salt()
        scene = Scene(wanted, journal, arms, None, say, timeout, api_key_env)
        box = Box(
            baseline_unit, Systemctl(words), context.find_root().obj.boot, ready_timeout, timeout, api_key_env, say
        )
        try:
            uvloop.run(run_campaign(steps, scene, box))
        except asyncio.CancelledError:
            say(f"interrupted: finished steps are kept in {output}; the same command goes on")
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if _met(journal.result("verdict")) else 3)


def _teller() -> Callable[[str], None]:
    console = Console(stderr=True, soft_wrap=True)
    return lambda line: console.print(line, markup=False, highlight=False)


def _number(option: str, value: float) -> float:
    from k25serve.server.errors import UserError

    if not math.isfinite(value) or value <= 0:
        raise UserError(f"{option} {value}: must be a number above 0")
    return value


def _arms(wanted: "Configuration") -> "tuple[Arm, ...]":
    from k25serve.bench.ab.arms import ArmSpec, parse_arm
    from k25serve.bench.load.endpoint import resolve
    from k25serve.bench.prove.step import BASELINE, Arm
    from k25serve.server.errors import UserError

    url = wanted.baseline_url
    arms = (
        Arm(BASELINE, ArmSpec("url", url, url, resolve(url, "--baseline-url"))),
        *(Arm(name, parse_arm("--profile", name)) for name in wanted.profiles),
    )
    keys = [arm.key for arm in arms]
    for arm in arms[1:]:
        if arm.spec.kind != "profile" or keys.count(arm.key) > 1:
            raise UserError(f"--profile {arm.name}: no profile of a name of its own; rename the file")
    return arms


def _check(wanted: "Configuration") -> None:
    """What would be found out only after the sweeps."""
    from k25serve.bench.load.prompts import Prompts
    from k25serve.bench.plan.calibration import load_calibration

    Prompts().check(wanted.classes)
    load_calibration(wanted.calibration)


def _confirm(wanted: "Configuration") -> None:
    from k25serve.server.errors import UserError

    if not sys.stdin.isatty():
        raise UserError(f"--baseline-unit {wanted.baseline_unit}: will be stopped; pass --yes where that is meant")
    if not typer.confirm(f"Stop {wanted.baseline_unit}?", err=True):
        raise typer.Exit(1)


def _met(verdict: Path | None) -> bool:
    from k25serve.bench import provenance

    if verdict is None:
        return False
    found = provenance.read(verdict).data["verdicts"]
    return all(each["met"] is True for one in found for each in one["criteria"])
