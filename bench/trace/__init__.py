"""torch.profiler traces of every rank of an engine -> what a decode step spends its time on.

file -> `stream` (raw events) -> `collect` (arrays of one rank) -> `steps` (forward modes) -> `measure` (time by kernel
class) -> `analyse` (ranks together) -> `table`, `page`, `diff`. Memory: one rank's device events.
"""
