"""What the lossy expert budget does to greedy answers: the same engine with and without it, token by token."""
