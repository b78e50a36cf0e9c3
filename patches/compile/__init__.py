"""The compile gate: every kernel variant a launch can reach, compiled for a GPU that isn't there, and what it needs."""
