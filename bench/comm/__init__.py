"""The links between GPUs as an engine uses them: latency of collectives over message size, and whether they end at all.

`preflight` and `sweep` start ranks through `launch`, each run in its own processes and time box; a rank is `worker`.
"""
