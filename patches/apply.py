"""Rows -> hooks in this process."""

import multiprocessing
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from k25serve.patches import fault
from k25serve.patches.context import Context, Here
from k25serve.patches.manifest.judge import way_out
from k25serve.patches.manifest.row import Device, Process, Row
from k25serve.patches.manifest.switches import Chosen
from k25serve.patches.wrap import place


def current_process() -> Process | None:
    """Which of SGLang's processes this is; None for one that no row is for, such as the detokenizer."""
    if multiprocessing.parent_process() is None:
        return "main"
    # A spawned child knows the function that it was given; it has no name of its own this early.
    target = getattr(multiprocessing.current_process(), "_target", None)
    return "scheduler" if getattr(target, "__name__", "").startswith("run_scheduler_process") else None


def apply(chosen: Sequence[Chosen], version: str, device: Device, process: Process) -> Here:
    """Put the hooks of `process` in place. Raises PatchFault naming the row, the version and the remedy."""
    here = Here(version, device, process)
    for item in chosen:
        try:
            _apply(item, here)
        except Exception as error:
            raise fault.stop(
                f"patch {item.row.name}: it can't be put in place: {fault.of(error)}; SGLang {version} found, "
                f"written for {' and '.join(item.row.versions)}; {way_out(item.row)}"
            ) from error
    return here


def _apply(item: Chosen, here: Here) -> None:
    hooks = item.row.hooks_in(here.version, here.process)
    if hooks:
        made = _make(item.row, Context(here, item.options))
        here.placed.extend(place(item.row, hook, getattr(made, hook.method)) for hook in hooks)
        here.objects[item.row.name] = made


def _make(row: Row, context: Context) -> Any:
    module, _, name = row.code.partition(":")
    return getattr(import_module(module), name)(context)
