"""`patches/launch.py` with one row spoilt: `SPOIL=KIND python -m patch_rows.spoilt_launch <SGLang's arguments>`.

Spawned children run this module again, as the launcher's do, so every process sees the same rows.
"""

import os
import sys
from dataclasses import replace

from k25serve.patches import launch, verify
from k25serve.patches.manifest import ROWS, Hook, Row
from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.trees import Installed
from k25serve.patches.reports import REPORTS_ENV

VICTIM = "step_seconds"
# Runs in the scheduler's constructor, before its model is loaded.
EARLY = "sglang.srt.managers.scheduler.Scheduler.init_model_config"


def spoilt(kind: str) -> tuple[Row, ...]:
    """The manifest with the row `VICTIM` spoilt."""
    row = next(row for row in ROWS if row.name == VICTIM)
    hook = row.hooks[0]
    if kind == "wrong target":
        hook = replace(hook, target=hook.target.replace("forward_batch", "forward_bunch"))
    elif kind == "changed fingerprint":
        hook = replace(hook, fingerprints=dict.fromkeys(hook.fingerprints, "0" * 16))
    elif kind == "exception":
        installed = Installed.find()
        found = Modules(installed).fingerprint(EARLY)
        assert found, f"{EARLY} is gone: choose another early call of the scheduler"
        row = replace(row, code="patch_rows.failing_hook:FailingHook")
        hook = Hook(EARLY, {installed.version: found}, "after", "fail")
    return tuple(replace(row, hooks=(hook,)) if one.name == VICTIM else one for one in ROWS)


def spoil() -> str:
    """Spoil the rows of this process."""
    kind = os.environ["SPOIL"]
    verify.ROWS = spoilt(kind)
    return kind


if __name__ == "__mp_main__":
    if spoil() == "missing process":
        # As in a process whose environment lost it: the plugin runs, and takes SGLang for one that is not ours.
        os.environ.pop(REPORTS_ENV)
    launch.prepare_child()
elif __name__ == "__main__":
    spoil()
    launch.prepare_parent(sys.argv[1:])
    launch.serve(sys.argv[1:])
