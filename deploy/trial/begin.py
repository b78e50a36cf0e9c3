"""From a profile to a trial's unit files, record and start. All is checked before anything that serves is touched."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from k25serve.deploy.systemd.render import (
    engine_files,
    engine_unit,
    exec_line,
    fill,
    k25serve_command,
    quoted,
    stop_seconds,
)
from k25serve.deploy.trial.account import check_account
from k25serve.deploy.trial.adopt import production_unit
from k25serve.deploy.trial.estimate import minutes_back
from k25serve.deploy.trial.gateway import served_models
from k25serve.deploy.trial.state import ROLLBACK_UNIT, TRIAL_UNIT, Trial, write
from k25serve.deploy.trial.systemctl import Systemctl
from k25serve.deploy.write import write_files
from k25serve.server.config import Profile
from k25serve.server.engine.drafter import check_profile_drafter
from k25serve.server.engine.preflight import preflight
from k25serve.server.engine.readiness import engine_url
from k25serve.server.engine.state import log_path
from k25serve.server.errors import ConfigError, UserError
from k25serve.server.serve import gateway_url

SERVICES_STATE = Path("/var/lib/k25serve")
PRODUCTION_STOP_S = 600  # whatever the adopted unit's own limit is, it has ended long before


async def begin(
    profile: Profile,
    source: str,
    overrides: Sequence[str],
    given_unit: str | None,
    program: Path,
    user: str,
    units: Path,
) -> Trial:
    """Check, write and start a trial; returns once systemd has taken it over.

    program: the k25serve that the units run. units: the folder for their files.
    Raises UserError, with nothing changed, where anything stands in the way.
    """
    systemctl = Systemctl()
    if systemctl.is_up(TRIAL_UNIT):
        raise UserError(f"a trial is on ({TRIAL_UNIT}); end it with: k25serve deploy rollback")
    preflight(profile)
    check_profile_drafter(profile)
    production = production_unit(given_unit, profile, systemctl)
    if production == engine_unit(profile):
        raise ConfigError(f"--profile {profile.name}: serves already, as {production}; try another one")
    changed = [*overrides, *(("gate.policy=refuse",) if _gate_would_only_warn(profile) else ())]
    command = k25serve_command(program, "engine", profile, source, changed)
    check_account(user, command)
    url = gateway_url(profile)
    records = sorted(
        (file for folder in (SERVICES_STATE, log_path(profile).parent) for file in folder.glob("*.load.json")),
        key=lambda file: file.stat().st_mtime,
    )
    back = minutes_back(production, profile.target, systemctl, records)
    async with aiohttp.ClientSession() as session:
        models = await served_models(session, url)
    write_files(units, _files(profile, command, user, production, systemctl))
    trial = write(
        Trial(
            profile=profile.name,
            engine_unit=engine_unit(profile),
            engine_url=engine_url(profile),
            model=profile.served_model_name,
            context_length=profile.context_length,
            production_unit=production,
            gateway_url=url,
            models=models,
            back=back,
            started=datetime.now(UTC),
        )
    )
    systemctl.reload()
    for unit in (TRIAL_UNIT, trial.engine_unit):
        systemctl.forget_failures(unit)
    systemctl.start(TRIAL_UNIT, wait=False)
    return trial


def _gate_would_only_warn(profile: Profile) -> bool:
    return profile.gate.policy == "warn" and profile.speculation.algorithm == "eagle3"


def _files(
    profile: Profile, command: Sequence[str], user: str, production: str, systemctl: Systemctl
) -> dict[str, str]:
    """The engine's unit with a drop-in that wins over an installed one's, and the trial's two units."""
    files = engine_files(profile, command, user, os.environ)
    conf = files.pop(f"{engine_unit(profile)}.d/profile.conf")
    del files["k25serve.sysusers.conf"]
    files[f"{engine_unit(profile)}.d/trial.conf"] = conf.replace("[Unit]\n", f"[Unit]\nOnFailure={ROLLBACK_UNIT}\n", 1)
    files[TRIAL_UNIT] = fill(
        TRIAL_UNIT,
        name=profile.name,
        production=production,
        start=exec_line([command[0], "deploy", "trial-start"]),
        end=exec_line([command[0], "deploy", "trial-end"]),
        stop_s=stop_seconds(profile) + PRODUCTION_STOP_S,
    )
    files[ROLLBACK_UNIT] = fill(ROLLBACK_UNIT, systemctl=quoted(str(systemctl.program)))
    return files
