"""Who may be served now: bounded concurrency, a bounded fair queue, limits of each key."""
