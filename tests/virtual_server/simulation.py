"""A server in virtual time: requests come and go, each draft is accepted by chance, a table says what a step costs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

from k25serve.patches.adaptive import Choice, Policy, StepCosts

RECOVERY = 8.0  # tokens over which a drafter that missed some forgets half of what it lost: an assumption


@dataclass(frozen=True)
class Regime:
    """Traffic for a while: tokens to serve, running requests, their mean length, chance of each draft token."""

    tokens: int
    batch: int
    context: int
    chances: tuple[float, ...]


@dataclass
class Request:
    """left: tokens to come. missed, since: whether the drafter misses some of its tokens, and tokens since then."""

    left: int
    missed: bool = False
    since: int = 0


@dataclass
class Server:
    """Serves regimes with a policy; `seconds` is what it took by the table."""

    costs: StepCosts
    random: random.Random
    policy: Policy
    lag: int = 1  # steps between a decision and what is learnt from it, as with SGLang's overlapped scheduler
    request_tokens: int = 400
    seconds: float = 0.0
    running: list[Request] = field(default_factory=list)
    pending: list[tuple[int, list[int]]] = field(default_factory=list)

    def serve(self, regime: Regime) -> None:
        done = 0
        while done < regime.tokens:
            self._admit(regime.batch)
            done += self._step(regime)

    def _admit(self, batch: int) -> None:
        self.running = [request for request in self.running if request.left > 0][:batch]
        while len(self.running) < batch:
            self.running.append(Request(1 + int(self.random.expovariate(1 / self.request_tokens))))

    def _step(self, regime: Regime) -> int:
        choice = self.policy.choose(regime.batch, regime.context, self.costs.steps)
        self.seconds += self.costs.at(regime.batch, regime.context)[choice.steps]
        if choice.steps == 0 and choice.extend:
            self.seconds += self.costs.draft_extend_seconds
        accepted = [self._accept(request, choice, regime.chances) for request in self.running]
        self.pending.append((choice.steps, accepted))
        if len(self.pending) > self.lag:
            self.policy.observe(*self.pending.pop(0))
        return sum(accepted) + len(accepted)

    def _accept(self, request: Request, choice: Choice, chances: Sequence[float]) -> int:
        worth = 1 - 0.5 ** (1 + request.since / RECOVERY) if request.missed else 1.0
        count = 0
        while count < choice.steps and self.random.random() < chances[count] * worth:
            count += 1
        request.left -= count + 1
        if choice.steps == 0 and not choice.extend:
            request.missed, request.since = True, 0
        else:
            request.since += count + 1
        return count


def served(policy: Policy, costs: StepCosts, regimes: Sequence[Regime], seed: int) -> float:
    """Seconds that it took with a policy. costs: the true ones."""
    server = Server(costs, random.Random(seed), policy)
    for regime in regimes:
        server.serve(regime)
    return server.seconds


def fixed(steps: int, costs: StepCosts, regimes: Sequence[Regime]) -> float:
    """Expected seconds of a server that always drafts `steps` tokens; with 0 it has no drafter."""
    return sum(
        regime.tokens
        / (regime.batch * sum(accumulate(regime.chances[:steps], mul, initial=1.0)))
        * costs.at(regime.batch, regime.context)[steps]
        for regime in regimes
    )
