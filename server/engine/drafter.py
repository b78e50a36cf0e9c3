"""The drafter's own preflight: every rule of `k25serve drafter check`, before anything is loaded."""

from pathlib import Path

from k25serve.drafters.check import Options, Verdict, check_drafter
from k25serve.drafters.checkpoint import DrafterError
from k25serve.drafters.registry import load_registry
from k25serve.server.config import Profile
from k25serve.server.errors import PreflightError


def check_profile_drafter(profile: Profile) -> str | None:
    """Check the profile's drafter against its target; a line to show, None where there is no drafter.

    Raises PreflightError where a rule refuses, or a folder cannot be read.
    """
    if profile.speculation.drafter is None:
        return None
    drafter, target = Path(profile.speculation.drafter), Path(profile.target)
    try:
        entry = load_registry().get(profile.gate.entry) if profile.gate.entry else None
        options = Options(entry=entry, tp=profile.engine.tp)
        report = check_drafter(drafter, target, profile.context_length, options)
    except DrafterError as error:
        raise PreflightError(str(error)) from None
    if report.verdict is Verdict.REFUSE:
        entry_option = f" --entry {profile.gate.entry}" if profile.gate.entry else ""
        command = f"k25serve drafter check --drafter {drafter} --target {target}{entry_option}"
        raise PreflightError(f"{report.summary()}; all rules: {command} --context-length {profile.context_length}")
    return report.summary()
