"""What the trial's unit does when it starts and when it ends. systemd calls both, so no terminal has to stay open."""

from k25serve.deploy.systemd.render import GATEWAY
from k25serve.deploy.trial import gateway, smoke
from k25serve.deploy.trial.state import Trial, change, read
from k25serve.deploy.trial.systemctl import Systemctl, SystemctlFailed
from k25serve.server.errors import EngineFailed, UserError


async def start() -> None:
    """Production stops, the engine on trial starts, clients find the gateway as it was.

    Raises UserError where any of it fails: the unit fails with it, and its end brings production back.
    """
    systemctl, trial = Systemctl(), _trial()
    systemctl.stop(trial.production_unit)
    trial = change(trial, phase="loading")
    if systemctl.show(GATEWAY, "LoadState") == "loaded" and not systemctl.is_up(GATEWAY):
        trial = change(trial, gateway_started=True)
        systemctl.start(GATEWAY)
    try:
        systemctl.start(trial.engine_unit)
    except SystemctlFailed as error:
        # Without words of its own it was not even started: systemd.exec(5) lists the statuses, 226 a sandbox's.
        status = systemctl.show(trial.engine_unit, "ExecMainStatus")
        reason = systemctl.show(trial.engine_unit, "StatusText") or f"exit status {status}: {error}"
        change(trial, reason=reason)
        raise EngineFailed(reason) from None
    fault = await smoke.fault(trial.engine_url, trial.model, trial.context_length)
    if fault is None and systemctl.is_up(GATEWAY):
        fault = await gateway.fault(trial.gateway_url, trial.models)
    if fault is not None:
        change(trial, reason=fault)
        raise EngineFailed(fault)
    change(trial, phase="serving")


def end() -> None:
    """Take the engine on trial away and start production. Safe to repeat: each step is done where it is still due."""
    systemctl, trial = Systemctl(), _trial()
    if trial.phase == "rolled back":
        return
    reason = trial.reason
    if not reason and systemctl.show(trial.engine_unit, "ActiveState") == "failed":
        reason = f"{trial.engine_unit} failed: {systemctl.show(trial.engine_unit, 'StatusText')}"
    systemctl.stop(trial.engine_unit)
    systemctl.forget_failures(trial.engine_unit)
    if trial.gateway_started:
        systemctl.stop(GATEWAY)
    systemctl.forget_failures(trial.production_unit)
    systemctl.start(trial.production_unit, wait=False)
    change(trial, phase="rolled back", reason=reason or "the trial ended before it was decided")


def _trial() -> Trial:
    trial = read()
    if trial is None:
        raise UserError("no trial is on: start one with k25serve deploy try")
    return trial
