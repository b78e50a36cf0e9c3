"""The policy in virtual time: never more than 3 % below the best fixed arm, no speculation being one of them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_server.simulation import Regime, fixed, served

from k25serve.patches.adaptive import Choice, Policy, StepCosts

BAR = 0.97
BATCHES, CONTEXTS, CHANCES = (1, 4, 16, 64, 128), (0, 16384, 131072), (0.1, 0.3, 0.5, 0.7, 0.9)
GRID = [(batch, context, chance) for batch in BATCHES for context in CONTEXTS for chance in CHANCES]
# Each batch, context and chance at least once; the rest is for the full tier.
SOME = [GRID[index] for index in (0, 8, 14, 17, 23, 32, 36, 49, 53, 67, 74)]


def against_best(costs: StepCosts, regimes: list[Regime], seed: int) -> tuple[float, int, Policy]:
    """Tokens per second over those of the best fixed arm, that arm, the policy."""
    policy = Policy(costs)
    seconds = served(policy, costs, regimes, seed)
    by_arm = {k: fixed(k, costs, regimes) for k in costs.steps}
    best = min(by_arm, key=lambda k: by_arm[k])
    return by_arm[best] / seconds, best, policy


def steady(batch: int, context: int, chance: float) -> list[Regime]:
    """At least about 1,500 steps."""
    tokens = 40_000 if batch == 1 else int(10_000 * batch**0.75)
    return [Regime(tokens, batch, context, (chance,) * 7)]


def drifting(seed: int) -> list[Regime]:
    """Eight regimes of a few hundred to a few thousand steps, each of another load, length and acceptance."""
    rng = random.Random(seed)
    regimes = []
    for _ in range(8):
        batch, context = rng.choice((1, 2, 4, 8, 16, 32, 64, 128)), rng.choice((0, 8000, 30000, 131072))
        chance, fall = rng.choice(CHANCES), rng.choice((0.0, 0.05))
        regimes.append(
            Regime(int(3000 * batch**0.7), batch, context, tuple(max(0.0, chance - fall * i) for i in range(7)))
        )
    return regimes


def check(costs: StepCosts, regimes: list[Regime], seed: int) -> None:
    ratio, best, policy = against_best(costs, regimes, seed)
    print(f"{ratio:.3f} of the best fixed arm, {best}; probes cost {policy.budget.spent / policy.budget.elapsed:.3f}")
    assert ratio >= BAR
    assert policy.budget.spent <= 0.015 * policy.budget.elapsed


@pytest.mark.parametrize(("batch", "context", "chance"), SOME)
def test_steady_traffic(tables: dict[str, StepCosts], batch: int, context: int, chance: float) -> None:
    check(tables["tokens"], steady(batch, context, chance), seed=batch * 7 + int(10 * chance))


@pytest.mark.full
@pytest.mark.parametrize("rows", ["tokens", "requests"])
@pytest.mark.parametrize(("batch", "context", "chance"), GRID)
def test_steady_traffic_everywhere(
    tables: dict[str, StepCosts], rows: str, batch: int, context: int, chance: float
) -> None:
    check(tables[rows], steady(batch, context, chance), seed=batch * 7 + int(10 * chance))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", ["tokens", "requests"])
def test_drift(tables: dict[str, StepCosts], rows: str, seed: int) -> None:
    check(tables[rows], drifting(seed), seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3, 40))
@pytest.mark.parametrize("rows", ["tokens", "requests"])
def test_drift_of_many_kinds(tables: dict[str, StepCosts], rows: str, seed: int) -> None:
    check(tables[rows], drifting(seed), seed)


@pytest.mark.parametrize("chances", [(0.9, 0.2, 0.9, 0.2), (0.2, 0.9, 0.2, 0.8)])
@pytest.mark.parametrize("batch", [1, 8])
def test_acceptance_that_flips(tables: dict[str, StepCosts], chances: tuple[float, ...], batch: int) -> None:
    tokens = {1: 6000, 8: 30_000}[batch]
    regimes = [Regime(tokens, batch, 16384, (chance,) * 7) for chance in chances]
    ratio, best, _ = against_best(tables["tokens"], regimes, seed=batch)
    print(f"{ratio:.3f} of the best fixed arm, {best}")
    assert ratio >= 1.0, "what changes is what adapting is for"


def arms_of(policy: Policy, batch: int, context: float, arms: list[int], accepted: int, steps: int) -> list[Choice]:
    """Choices while every request has min(accepted, drafted) drafts accepted, always."""
    choices = []
    for _ in range(steps):
        choices.append(policy.choose(batch, context, arms))
        policy.observe(choices[-1].steps, [min(accepted, choices[-1].steps)] * batch)
    return choices


def test_it_follows_the_costs_at_once(tables: dict[str, StepCosts]) -> None:
    """Batch and context are no matter of learning."""
    policy = Policy(tables["tokens"])
    arms = list(tables["tokens"].steps)
    arms_of(policy, 1, 0, arms, accepted=2, steps=1500)
    assert policy.choose(1, 0, arms).steps in (2, 3)
    quiet = [choice for choice in arms_of(policy, 128, 131072, arms, accepted=0, steps=40) if not choice.probe]
    assert {choice.steps for choice in quiet[20:]} == {0}


def test_only_allowed_arms(tables: dict[str, StepCosts]) -> None:
    policy = Policy(tables["tokens"])
    for arms in ([0, 1], [3], [1, 5, 7], [0]):
        assert {choice.steps for choice in arms_of(policy, 4, 0, arms, accepted=7, steps=300)} <= set(arms)
    with pytest.raises(ValueError, match=r"none of the steps \[9\] is in the cost table"):
        policy.choose(4, 0, [9])


def test_a_good_drafter_is_found_again(tables: dict[str, StepCosts]) -> None:
    policy = Policy(tables["tokens"])
    arms = list(tables["tokens"].steps)
    arms_of(policy, 4, 0, arms, accepted=0, steps=3000)
    assert policy.choose(4, 0, arms).steps == 0
    found = arms_of(policy, 4, 0, arms, accepted=7, steps=8000)
    assert found[-1].steps == 7


def test_without_drafts_the_cache_is_extended_where_it_is_cheap_and_before_probes(
    tables: dict[str, StepCosts],
) -> None:
    costs = tables["tokens"]
    arms = list(costs.steps)
    cheap = Policy(costs.model_copy(update={"draft_extend_seconds": 1e-6}))
    assert all(choice.extend for choice in arms_of(cheap, 4, 0, arms, accepted=0, steps=2000))
    dear = arms_of(Policy(costs), 4, 0, arms, accepted=0, steps=6000)
    at_rest = [choice for choice in dear[500:] if not choice.probe]
    assert at_rest
    assert not any(choice.extend for choice in at_rest)
    starts = [i for i in range(500, 6000) if dear[i].probe and dear[i].steps and not dear[i - 1].steps]
    assert starts, "it must look again"
    for start in starts:
        assert all(choice == Choice(0, extend=True, probe=True) for choice in dear[start - 64 : start])


@given(
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.001, 0.015, 0.03]),
    jumps=st.lists(st.tuples(st.sampled_from(BATCHES), st.sampled_from(CONTEXTS)), min_size=1, max_size=6),
)
@settings(max_examples=15, deadline=None)
def test_probes_never_cost_more_than_their_share(
    tables: dict[str, StepCosts], seed: int, share: float, jumps: list[tuple[int, int]]
) -> None:
    """Whatever is accepted, however the load jumps, at every step. Worst case: probes bring nothing."""
    policy, rng = Policy(tables["tokens"], explore_share=share), random.Random(seed)
    for batch, context in jumps:
        for _ in range(rng.randrange(1, 400)):
            choice = policy.choose(batch, context, tables["tokens"].steps)
            assert policy.budget.spent <= share * policy.budget.elapsed + 1e-9
            assert share > 0 or not choice.probe
            policy.observe(choice.steps, [0 if choice.probe else rng.randint(0, choice.steps)] * batch)


@pytest.mark.parametrize(("name", "value"), [("explore_share", -0.1), ("explore_share", 0.6), ("hysteresis", 2.0)])
def test_wrong_options(tables: dict[str, StepCosts], name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} {value} must be between 0 and 0.5"):
        Policy(tables["tokens"], **{name: value})


def test_nan_is_no_share(tables: dict[str, StepCosts]) -> None:
    with pytest.raises(ValueError, match="explore_share nan"):
        Policy(tables["tokens"], explore_share=float("nan"))


def test_ranks_decide_alike(tables: dict[str, StepCosts]) -> None:
    """No clock and no chance: the same batches and counts give the same choices."""
    rng = random.Random(1)
    first, second = Policy(tables["requests"]), Policy(tables["requests"])
    for _ in range(2000):
        batch, context = rng.choice(BATCHES), rng.random() * 1e5
        choices = [policy.choose(batch, context, tables["requests"].steps) for policy in (first, second)]
        assert choices[0] == choices[1]
        accepted = [rng.randint(0, choices[0].steps) for _ in range(batch)]
        for policy in (first, second):
            policy.observe(choices[0].steps, accepted)
