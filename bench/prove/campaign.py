"""What a campaign consists of, in order, and how long it may take."""

from collections.abc import Iterator, Sequence
from functools import partial

from k25serve.bench.ab.plan import load_s
from k25serve.bench.prove.configuration import Configuration
from k25serve.bench.prove.step import Arm, Step
from k25serve.bench.prove.steps.comm import comm
from k25serve.bench.prove.steps.doctor import doctor
from k25serve.bench.prove.steps.gate import gate
from k25serve.bench.prove.steps.plan import plan
from k25serve.bench.prove.steps.report import report
from k25serve.bench.prove.steps.sweep import load_plan, sweep
from k25serve.bench.prove.steps.trace import trace
from k25serve.bench.prove.steps.verdict import verdict

DOCTOR_S, COMM_S, TRACE_S = 60.0, 60.0, 120.0
GATE_TOKENS = 50 * 256 / 4  # prompts, tokens, of which so many at a time
MINUTE_S, HOUR_S = 60, 3600


def steps_of(wanted: Configuration, arms: Sequence[Arm], tpot_s: float) -> tuple[Step, ...]:
    """The baseline first, since it serves already; then what needs it stopped; what reads results last."""
    baseline, *profiles = arms
    load = load_plan(wanted)
    load_why = (
        f"{sum(map(load.count, load.cells()))} answers of {wanted.tokens} tokens, {tpot_s * 1000:g} ms each at C=1"
    )
    swept_s = load_s(load, wanted.tokens, tpot_s)

    def asked(arm: Arm) -> Iterator[Step]:
        yield Step(f"sweep-{arm.key}", f"sweep of {arm.name}", swept_s, load_why, partial(sweep, arm=arm), "arm", arm)
        yield Step(
            f"trace-{arm.key}",
            f"trace of {arm.name}",
            TRACE_S,
            "most is writing it",
            partial(trace, arm=arm),
            "arm",
            arm,
        )

    found = [
        Step(f"doctor-{arm.key}", f"doctor for {arm.name}", DOCTOR_S, "nothing is loaded", partial(doctor, arm=arm))
        for arm in profiles
    ]
    found += asked(baseline)
    found.append(Step("comm", "links", COMM_S, "its time box", comm, "idle"))
    for arm in profiles:
        found.append(
            Step(
                f"gate-{arm.key}",
                f"drafter gate of {arm.name}",
                GATE_TOKENS * tpot_s,
                "50 prompts of 256 tokens, 4 at a time",
                partial(gate, arm=arm),
                "arm",
                arm,
            )
        )
        found += asked(arm)
    found += [
        Step(f"plan-{arm.key}", f"plan against {arm.name}", 1, "arithmetic", partial(plan, arm=arm), "end", arm)
        for arm in profiles
    ]
    found.append(Step("verdict", "verdict", 1, "arithmetic", verdict, "end"))
    found.append(Step("report", "report", 1, "writing", report, "end"))
    return tuple(found)


def stops_unit(wanted: Configuration, left: Sequence[Step]) -> bool:
    """Whether production has to stop for what is left."""
    profile_runs = any(
        step.place == "arm" and step.arm is not None and step.arm.spec.kind == "profile" for step in left
    )
    return wanted.baseline_unit is not None and (profile_runs or any(step.place == "idle" for step in left))


def told(wanted: Configuration, left: Sequence[Step], boot_minutes: float) -> list[str]:
    """Steps, minutes and why, then hours."""
    lines, total, up = [], 0.0, None
    for step in left:
        if step.place == "arm" and step.arm is not None and step.arm is not up and step.arm.spec.kind == "profile":
            lines.append(f"  load of {step.arm.name}: {boot_minutes:g} min (--boot-minutes)")
            total += boot_minutes * MINUTE_S
        up = step.arm if step.place == "arm" else None
        lines.append(f"  {step.title}: {step.seconds / MINUTE_S:.1f} min ({step.why})")
        total += step.seconds
    lines.append(f"about {total / HOUR_S:.1f} h")
    if stops_unit(wanted, left):
        lines.append(
            f"{wanted.baseline_unit} is stopped from the links' step to the last profile's end, then started again; "
            f"its load takes another {boot_minutes:g} min"
        )
    return lines
