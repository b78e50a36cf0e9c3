"""The most that a plan is asked for. Beyond lie typing errors, not deployments."""

K_AT_MOST = 64
CONCURRENCY_AT_MOST = 1 << 20
CONTEXT_AT_MOST = 1 << 30
RANKS_AT_MOST = 4096
TIME_AT_MOST = 1e9  # us, ms, us a KiB
TOK_S_AT_MOST = 1e9
