"""Proof on a GPU: the stack as a user starts it, checked and timed in stages that each leave a result file."""
