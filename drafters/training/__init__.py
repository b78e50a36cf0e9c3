"""`k25serve drafter train`: an EAGLE-3 drafter from a served model.

data -> vocab, capture (from the running engine) -> fit -> export; `run` does all of it from one YAML, `estimate` says
beforehand what it takes. Each step reads and writes files of one run folder and can be killed at any moment.
"""
