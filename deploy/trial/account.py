"""Whether the account of the services can run them at all: found while production still serves."""

import pwd
import subprocess
from collections.abc import Sequence

from k25serve.server.errors import ConfigError

DRY_RUN_S = 120


def check_account(user: str, command: Sequence[str]) -> None:
    """Raise ConfigError unless `user` exists and can run the engine's `command` as far as its dry run."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(
            f"--user {user}: no such account; make it as `k25serve deploy systemd` says (systemd-sysusers), or name one"
        ) from None
    try:
        done = subprocess.run(
            [*command, "--dry-run"],
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=(),
            cwd="/",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DRY_RUN_S,
        )
        said = done.stderr.strip().splitlines()[-1:] if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [str(error)]
    if said is not None:
        raise ConfigError(f"--user {user}: cannot run {command[0]}: {''.join(said) or 'it fails'}; mend its rights")
