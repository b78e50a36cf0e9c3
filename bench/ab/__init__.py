"""Is B faster than A? Two arms on one box, in turns, with a verdict that names its scope."""
