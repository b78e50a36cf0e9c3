"""Captures the hidden states that a drafter is trained on, from a running SGLang.

The engine's row `capture_states` writes one file a request; `run` asks for a row of the data at a time, checks what
came and keeps it under `hidden/<split>/`, shard by shard. `check` compares what was kept with a plain forward.
"""

from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.run import CaptureReport, capture, capture_shard
from k25serve.drafters.training.capture.shards import Shard, drop_shard, plan_shards

__all__ = ["CaptureOptions", "CaptureReport", "Shard", "capture", "capture_shard", "drop_shard", "plan_shards"]
