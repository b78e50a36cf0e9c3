"""A fault in the command line itself, as one line: which option, its value, what belongs there, where to read on."""

from typing import Any

from pydantic import ValidationError
from typer.exceptions import TyperException

from k25serve.server.config.shown import one_line


def told(error: TyperException) -> str:
    """The fault in one line; empty where a group was called without a command, which has printed its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "k25serve"
    return one_line(f"{_fault(error)}; `{command} --help` says what it takes")


def _fault(error: TyperException) -> str:
    parameter, cause = getattr(error, "param", None), error.__cause__
    if parameter is not None and isinstance(cause, ValidationError):
        fault = cause.errors(include_url=False)[0]
        message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        return f"{_name(parameter)} {fault['input']}: {message.partition(', unable to')[0].rstrip('.')}"
    if parameter is not None and not error.message:
        metavar = parameter.metavar or ""
        choices = " ".join((parameter.get_missing_message(error.ctx) or "").split())  # type: ignore[attr-defined]
        name = " ".join(dict.fromkeys((_name(parameter), metavar))).strip()
        return f"{name} is missing{f'; {choices[:1].lower()}{choices[1:]}' if choices else ''}"
    message = " ".join(error.format_message().split()).rstrip(".?")
    return f"{message[:1].lower()}{message[1:]}"


def _name(parameter: Any) -> str:
    """An option as it is written in full; an argument by its placeholder."""
    longest: str = max(parameter.opts, key=len)
    return longest if longest.startswith("-") else str(parameter.metavar or longest.upper())
