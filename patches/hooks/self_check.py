"""Row self_check: every process reports, the main one waits for all of them."""

import multiprocessing
import os
from collections.abc import Collection, Sequence
from typing import Any

from k25serve.patches import verify
from k25serve.patches.context import Context
from k25serve.patches.hooks.rank import this_rank
from k25serve.patches.manifest.row import Process
from k25serve.patches.reports import Reports


class SelfCheck:
    """Reports of one launch."""

    def __init__(self, context: Context) -> None:
        self._here = context.here
        self._direct: list[int] = []

    def report(self, result: object, scheduler: Any) -> None:
        """After `Scheduler.get_init_info`: the model is loaded, graphs are captured, nothing is served yet."""
        verify.report_ready(self._here, _reports(), this_rank().as_dict())

    def started(self, result: Any, *args: Any, **kwargs: Any) -> None:
        """After `Engine._launch_scheduler_processes`, whose second result are the processes."""
        self._direct = [process.pid for process in result[1]]

    def gate(self, result: Any, cls: type, *args: Any, **kwargs: Any) -> None:
        """After `Engine._launch_subprocesses`: every scheduler has said that it is ready, the port is not open yet."""
        reports = _reports()
        verify.report_ready(self._here, reports, {})
        listed = next(part.all_child_pids for part in result if hasattr(part, "all_child_pids"))
        children = {child.pid for child in multiprocessing.active_children()}
        expected: dict[Process, set[int]] = {
            "main": {os.getpid()},
            "scheduler": schedulers(self._direct, listed, children),
        }
        chosen = verify.chosen_rows(self._here.version, self._here.device)
        verify.check_ready(chosen, self._here, reports, expected)


def schedulers(direct: Sequence[int], listed: Sequence[int], children: Collection[int | None]) -> set[int]:
    """Pids of the schedulers of a launch.

    direct: what SGLang started to schedule: the schedulers, or a data parallel controller, which may have been given
    schedulers started here. listed: `all_child_pids`: those first, then the controller's schedulers, then detokenizers.
    children: of this process, which a controller's own schedulers are not.
    """
    of_controller = {pid for pid in listed[len(direct) :] if pid in direct or pid not in children}
    return of_controller or set(direct)


def _reports() -> Reports:
    reports = Reports.from_environment()
    assert reports is not None, "hooks are put in place in a launch of ours only"
    return reports
