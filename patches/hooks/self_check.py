"""Row self_check: every process reports, the main one waits for all of them."""

import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

from k25serve.patches import verify
from k25serve.patches.apply import is_scheduler
from k25serve.patches.context import Context
from k25serve.patches.hooks.rank import this_rank
from k25serve.patches.manifest.row import Process
from k25serve.patches.reports import Reports


class SelfCheck:
    """Reports of one launch."""

    def __init__(self, context: Context) -> None:
        self._here = context.here

    def report(self, result: object, scheduler: Any) -> None:
        """After `Scheduler.get_init_info`: the model is loaded, graphs are captured, nothing is served yet."""
        verify.report_ready(self._here, _reports(), this_rank().as_dict())

    def gate(self, result: Any, cls: type, *args: Any, **kwargs: Any) -> None:
        """After `Engine._launch_subprocesses`: every scheduler has said that it is ready, the port is not open yet."""
        reports = _reports()
        verify.report_ready(self._here, reports, {})
        children = next(part.all_child_pids for part in result if hasattr(part, "all_child_pids"))
        expected: dict[Process, set[int]] = {"main": {os.getpid()}, "scheduler": schedulers(children)}
        chosen = verify.chosen_rows(self._here.version, self._here.device)
        verify.check_ready(chosen, self._here, reports, expected)


def schedulers(children: Sequence[int]) -> set[int]:
    """Pids of the schedulers among the engine's processes; those of data parallel replicas are grandchildren."""
    others = {child.pid for child in multiprocessing.active_children() if not is_scheduler(child)}
    return set(children) - {pid for pid in others if pid is not None}


def _reports() -> Reports:
    reports = Reports.from_environment()
    assert reports is not None, "hooks are put in place in a launch of ours only"
    return reports
