"""`drafter train run`: every step of a training in one command that can be killed and goes on.

options (one YAML) -> orchestrate -> data_steps, capture_step, fit_step, gate_step (or parts, on a small disk) -> state.
"""
