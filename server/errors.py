"""Errors that a user can mend.

UserError               exit code 2, one line: what is wrong, its value, the remedy
├── ConfigError         a profile or a flag
├── PreflightError      the machine, a model folder or the installed SGLang
│   └── StillHeld       memory or a port that another process holds: may pass (exit code 1)
└── EngineFailed        the engine ended, or did not get ready (exit code 1)
"""


class UserError(Exception):
    """A mistake in the input or the surroundings, told in one line."""

    exit_code = 2


class ConfigError(UserError):
    """A profile or a flag is wrong."""


class PreflightError(UserError):
    """Something that the engine needs is missing or taken."""


class StillHeld(PreflightError):
    """What the engine needs is held by another process. It may pass, so a supervisor tries again."""

    exit_code = 1


class EngineFailed(UserError):
    """The engine ended, or did not get ready in time."""

    exit_code = 1
