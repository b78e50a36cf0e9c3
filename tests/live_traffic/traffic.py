"""Simulated traffic of two arms, request by request."""

import math
import random

from k25serve.server.gateway.ended import Ended
from k25serve.server.gateway.experiment.settings import ExperimentSettings
from k25serve.server.gateway.experiment.tally import OpenMinute
from k25serve.server.gateway.usage import Usage

MEMORY = 0.9
"""Correlation of an arm's load from one minute to the next: half of it is gone after seven minutes."""


def settings(**given):
    base = {"name": "sim", "state": "unused.db", "control": "a", "weights": {"a": 1, "b": 1}, "metrics": ("tpot",)}
    return ExperimentSettings(**base | given)


class Arm:
    """One arm's engine: its speed follows its load, and drifts a little for no reason that anybody sees."""

    def __init__(self, name, rng, effect):
        self.name, self.rng, self.effect = name, rng, effect
        self.load, self.drift = rng.gauss(0, 1), rng.gauss(0, 1)

    def step(self):
        fresh = math.sqrt(1 - MEMORY**2)
        self.load = MEMORY * self.load + fresh * self.rng.gauss(0, 1)
        self.drift = MEMORY * self.drift + fresh * self.rng.gauss(0, 1)

    def request(self, shared):
        """An ended request and the load that it met."""
        gauss = self.rng.gauss
        load = max(0, round(30 * math.exp(0.3 * self.load + 0.1 * gauss(0, 1))))
        tokens = max(16, round(300 * math.exp(0.8 * gauss(0, 1))))
        prompt = round(2000 * math.exp(gauss(0, 1)))
        log_tpot = -4 + shared + 0.25 * math.log1p(load) - 0.02 * math.log(tokens) + 0.01 * math.log(prompt)
        log_tpot += 0.02 * self.drift + 0.08 * gauss(0, 1) + self.effect
        usage = Usage(prompt, self.rng.choice((0, prompt // 2)), tokens)
        return Ended("ok", 0.5, math.exp(log_tpot) * (tokens - 1), usage, 0, "stop", True), load


def minutes(seed, count, given, effect=0.0, sessions=4):
    """[(minute, arm, tally)], in order: `sessions` conversations in each arm and minute, arm b slower by `effect`."""
    rng = random.Random(seed)
    arms = [Arm("a", rng, 0.0), Arm("b", rng, effect)]
    found = []
    for minute in range(count):
        shared = 0.2 * math.sin(minute / 100) + 0.05 * rng.gauss(0, 1)
        for arm in arms:
            arm.step()
            open_minute = OpenMinute(given)
            for session in range(sessions):
                ended, load = arm.request(shared)
                open_minute.take(ended, session, load, moved=False)
            found.append((minute, arm.name, open_minute.tally))
    return found
