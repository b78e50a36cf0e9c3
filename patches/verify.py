"""Proof that the rows are in place in every process that should have them; the launch stops where they are not."""

import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from k25serve.patches import fault
from k25serve.patches.context import Here
from k25serve.patches.manifest import ROWS
from k25serve.patches.manifest.judge import misfits
from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.row import Device, Process
from k25serve.patches.manifest.switches import SWITCHES_ENV, Chosen, SwitchError, choose, read_switches
from k25serve.patches.manifest.trees import Installed, Tree, TreeError
from k25serve.patches.reports import Reports

_NO_PLUGIN = "check SGLANG_PLUGINS, and that k25serve is installed in this environment (pip show k25serve)"


def chosen_rows(version: str, device: Device) -> tuple[Chosen, ...]:
    """The rows that this launch has on. Raises PatchFault for a wrong switch."""
    try:
        return choose(ROWS, read_switches(os.environ.get(SWITCHES_ENV, "")), version, device)
    except SwitchError as error:
        raise fault.stop(str(error)) from error


def check_source(device: Device, tree: Tree | None = None) -> None:
    """Compare what the rows were written against with the SGLang of `tree`, by default the installed one.

    Raises PatchFault at the first row that does not fit. Once a launch is enough: all processes share the files.
    """
    try:
        modules = Modules(tree or Installed.find())
        for item in chosen_rows(modules.version, device):
            for misfit in misfits(item.row, modules):
                raise fault.stop(str(misfit))
    except TreeError as error:
        raise fault.stop(str(error)) from error


def report_applied(here: Here, reports: Reports) -> None:
    """Say that this process has its hooks."""
    reports.write("applied", {"process": here.process, "pid": os.getpid(), "rows": sorted(here.objects)})


def check_applied(reports: Reports) -> None:
    """In the main process, once plugins are loaded: ours must have run. Raises PatchFault."""
    if not any(report["pid"] == os.getpid() for report in reports.read("applied")):
        raise fault.stop(
            f"patch self_check: the plugin 'k25serve' did not run in the main process, so no patch is in place; "
            f"{_NO_PLUGIN}"
        )


def report_ready(here: Here, reports: Reports, rank: Mapping[str, int]) -> dict[str, Any]:
    """Check this process's hooks where they are now, ask its rows for their facts, and report both.

    Raises PatchFault where a hook has been taken out since.
    """
    for placed in here.placed:
        if not placed.is_in_place():
            raise fault.stop(
                f"patch {placed.row.name}: {placed.hook.target} is no longer ours in the {here.process} process: "
                "another plugin or SGLang itself replaced it; set SGLANG_PLUGINS=k25serve"
            )
    rows = {}
    for name, made in here.objects.items():
        hooks = [placed.hook.target for placed in here.placed if placed.row.name == name]
        facts = made.facts() if hasattr(made, "facts") else {}
        rows[name] = {"hooks": hooks, **({"facts": facts} if facts else {})}
    report = {"process": here.process, "pid": os.getpid(), "rank": dict(rank), "rows": rows}
    reports.write("ready", report)
    return report


def check_ready(
    chosen: Sequence[Chosen], here: Here, reports: Reports, expected: Mapping[Process, Collection[int]]
) -> None:
    """In the main process, before the server opens its port: each row is in every process that should have it.

    expected: pids of the processes of each kind. Prints one line of JSON with what is where.
    Raises PatchFault naming the row and the processes that lack it, or the fault that a process recorded.
    """
    for line in reports.faults():
        raise fault.PatchFault(line)
    found = reports.read("ready")
    for item in chosen:
        having = {report["pid"] for report in found if item.row.name in report["rows"]}
        for process, pids in expected.items():
            if not item.row.hooks_in(here.version, process):
                continue
            if not pids:
                raise fault.stop(f"patch {item.row.name}: SGLang {here.version} started no {process} process to check")
            if lacking := sorted(set(pids) - having):
                raise fault.stop(
                    f"patch {item.row.name}: not in place in {len(lacking)} of {len(pids)} {process} processes (pid "
                    f"{', '.join(map(str, lacking))}), where the plugin 'k25serve' did not run under SGLang "
                    f"{here.version}; {_NO_PLUGIN}"
                )
    summary = {"sglang": here.version, "device": here.device, "processes": found}
    print(f"k25serve: patches in place: {json.dumps(summary)}", file=sys.stderr, flush=True)
    reports.remove()
