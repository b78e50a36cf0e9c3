"""Captures the hidden states that a drafter is trained on, from a running SGLang.

The engine's row `capture_states` writes one file a request; `run` asks for a row of the data at a time, checks what
came and keeps it under `hidden/<split>/`, shard by shard. `check` compares what was kept with a plain forward.
"""
