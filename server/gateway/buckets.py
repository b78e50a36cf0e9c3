"""Bucket bounds of the gateway's histograms. A latency target has to be a bound, or it can't be read off."""

MS = 1e-3

STEP_SECONDS = tuple(
    ms * MS
    for ms in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 250, 500, 1000, 2500)
)  # fmt: skip
TTFT_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 12, 20, 40, 80, 160)
REQUEST_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)
OVERHEAD_SECONDS = tuple(ms * MS for ms in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 25, 50, 100))
ACCEPT_LENGTH = tuple(1 + quarter / 4 for quarter in range(33))
"""1 (no draft token accepted) to 9 (all of 8), by quarters."""
