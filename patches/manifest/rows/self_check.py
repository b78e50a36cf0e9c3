"""The row that proves the others."""

from k25serve.patches.manifest.row import Hook, Row, Source

ROW = Row(
    name="self_check",
    code="k25serve.patches.hooks.self_check:SelfCheck",
    hooks=(
        Hook(
            "sglang.srt.managers.scheduler.Scheduler.get_init_info",
            {"0.5.17": "dd258c8dd9218447", "0.5.23": "4029608298f34005"},
            "after",
            "report",
        ),
        Hook(
            "sglang.srt.entrypoints.engine.Engine._launch_scheduler_processes",
            {"0.5.17": "8945fbc7e9c8deb9", "0.5.23": "43f4b0016528d72b"},
            "after",
            "started",
            "main",
        ),
        Hook(
            "sglang.srt.entrypoints.engine.Engine._launch_subprocesses",
            {"0.5.17": "330eac4fec1707b8", "0.5.23": "ce55c241c4b6073b"},
            "after",
            "gate",
            "main",
        ),
    ),
    reason="SGLang logs a plugin that fails and serves without it. Each scheduler reports its rows before it says that "
    "it is ready, and the server does not open its port until every report is there.",
    upstream="none: sglang.srt.plugins.load_plugins and HookRegistry.apply_hooks catch every Exception",
    relies_on=(
        Source("sglang.srt.plugins.load_plugins", {"0.5.17": "00bab86a0aea119b", "0.5.23": "00bab86a0aea119b"}),
    ),
    remove_when="SGLang can be told to stop where a plugin or a hook fails",
    required=True,
)
