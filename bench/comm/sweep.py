"""Runs of ranks: a full measurement, and the short one that must pass before any weight is loaded."""

import sys
from collections.abc import Callable, Iterable, Sequence

from k25serve.bench.comm.fit import fits, slowest
from k25serve.bench.comm.launch import run_ranks
from k25serve.bench.comm.report import Plan, Run, Sample
from k25serve.bench.comm.variants import DEFAULT, FALLBACKS, VARIANTS

TOKEN_BYTES = 7168 * 2  # one token's hidden state of Kimi-K2.5 in bf16: what a decode step reduces for each sequence
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SIZES = tuple(TOKEN_BYTES * count for count in TOKENS)
PREFLIGHT_SIZES = (TOKEN_BYTES, 16 * TOKEN_BYTES, 16 << 20)
WORKER = (sys.executable, "-P", "-m", "k25serve.bench.comm.worker")
# gloo looks for an address of the host's name otherwise, which a container may not have.
GLOO_ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo"}

Say = Callable[[str], None]


def measure(
    plan: Plan, ranks: int, variant: str, limit_s: float, *, worker: Sequence[str] = WORKER, say: Say = print
) -> Run:
    """One run of a plan in its time box. `worker` is the rank's command, to which the plan is added."""
    environment = {**VARIANTS[variant], **(GLOO_ENVIRONMENT if plan.backend == "gloo" else {})}
    say(f"{plan.path} over {plan.backend}, {ranks} ranks, variant {variant}, at most {limit_s:.0f} s")
    ended = run_ranks([*worker, plan.model_dump_json()], ranks, environment, limit_s)
    samples = slowest(Sample.model_validate(one["sample"]) for one in ended.messages if "sample" in one)
    return Run(
        variant=variant,
        environment=environment,
        plan=plan,
        ranks=ranks,
        passed=ended.passed,
        seconds=ended.seconds,
        limit_s=limit_s,
        nccl=next((one["nccl"] for one in ended.messages if "nccl" in one), ""),
        ends=ended.ends,
        samples=samples,
        fits=fits(samples),
    )


def sweep(
    plans: Iterable[Plan], ranks: int, variants: Sequence[str], limit_s: float, *, say: Say = print
) -> tuple[Run, ...]:
    """Every plan in every variant. A run that hangs is one of the findings; the next one is still made."""
    return tuple(measure(plan, ranks, variant, limit_s, say=say) for variant in variants for plan in plans)


def preflight(
    ranks: int,
    backend: str,
    limit_s: float = 60.0,
    *,
    worker: Sequence[str] = WORKER,
    say: Say = print,
) -> tuple[Run, ...]:
    """A short all-reduce in the environment as it is; only if that fails, the known variants, to say which one works.

    The first run decides whether the host may serve: a variant that works is advice, not a cure that is applied.
    """
    plan = Plan.model_validate({"backend": backend, "sizes": PREFLIGHT_SIZES, "samples": 5, "calls": 10})
    runs = [measure(plan, ranks, DEFAULT, limit_s, worker=worker, say=say)]
    if not runs[0].passed and backend == "nccl":
        runs += [measure(plan, ranks, name, limit_s, worker=worker, say=say) for name in FALLBACKS]
    return tuple(runs)
