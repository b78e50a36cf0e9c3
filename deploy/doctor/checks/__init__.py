"""The checks, one job a file. Each takes a profile and a machine and gives findings."""
