"""The trial as the user sees it. Leaving is safe: systemd carries it on."""

import time

from rich.console import Console

from k25serve.deploy.trial.state import STATE, TRIAL_UNIT, Trial, change, read
from k25serve.deploy.trial.steps import end
from k25serve.deploy.trial.systemctl import Systemctl
from k25serve.server.errors import EngineFailed

POLL_S = 0.5


def follow(trial: Trial, console: Console) -> None:
    """Tell each step until the trial serves. Raises EngineFailed where it was rolled back."""
    systemctl, shown = Systemctl(), ""
    while True:
        # Its state first: the record of a trial that has ended does not change any more.
        state = systemctl.show(TRIAL_UNIT, "ActiveState")
        now = read() or trial
        told = f"trial: {now.phase}"
        if now.phase == "loading" and (status := systemctl.show(now.engine_unit, "StatusText")):
            told += f": {status}"
        if told != shown:
            shown = told
            console.print(told, markup=False, highlight=False)
        if state in ("failed", "inactive"):
            raise EngineFailed(
                f"{now.profile} was rolled back: {now.reason}; {now.production_unit} starts again, {now.back}"
            )
        if state == "active":
            console.print(
                f"trial: {now.profile} serves. End it with: k25serve deploy rollback ({now.production_unit} is back "
                f"after {now.back})",
                markup=False,
                highlight=False,
            )
            return
        time.sleep(POLL_S)


def roll_back(console: Console) -> None:
    """End the trial that is on, or finish one whose end was itself killed; say when production is back."""
    systemctl, trial = Systemctl(), read()
    if trial is None or trial.phase == "rolled back":
        last = "" if trial is None else f"; the last one was rolled back: {trial.reason}"
        console.print(f"no trial is on{last}", markup=False, highlight=False)
        return
    change(trial, reason=trial.reason or "asked for")
    if systemctl.is_up(TRIAL_UNIT):
        systemctl.stop(TRIAL_UNIT)
    end()
    if not systemctl.is_up(trial.production_unit):
        raise EngineFailed(
            f"{trial.production_unit} does not start: see systemctl status {trial.production_unit} (record: {STATE})"
        )
    console.print(f"rolled back: {trial.production_unit} starts, {trial.back}", markup=False, highlight=False)
