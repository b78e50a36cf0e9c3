"""Kernels of our own, one folder an operation: a readable reference beside each."""
