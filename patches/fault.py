"""How a patch stops a process: one line, and an exit that SGLang does not swallow."""

import os
import sys
import threading
import traceback

from k25serve.patches.reports import Reports

TEXT_AT_MOST = 400


class PatchFault(SystemExit):
    """Ends the process with a line on stderr. No Exception, so SGLang's `except Exception` lets it pass."""


def stop(line: str, error: Exception | None = None) -> PatchFault:
    """Record the line for the launcher, print the traceback of `error`; the exception to raise.

    In a thread beside the main one it ends the process here: Python drops a thread's SystemExit without a word.
    """
    text = f"k25serve: error: {line}"
    if error is not None:
        traceback.print_exception(error)
    reports = Reports.from_environment()
    if reports is not None:
        reports.write_fault(text)
    if threading.current_thread() is not threading.main_thread():
        print(text, file=sys.stderr, flush=True)
        os._exit(1)
    return PatchFault(text)


def of(error: Exception) -> str:
    """An exception in one line of at most `TEXT_AT_MOST` characters."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= TEXT_AT_MOST else f"{text[:TEXT_AT_MOST]} ..."
