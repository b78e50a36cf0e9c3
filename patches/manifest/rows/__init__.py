"""One file a row, each with its `ROW`."""
