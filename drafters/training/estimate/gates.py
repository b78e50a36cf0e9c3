"""The questions that come before the run, and the native drafters that may make it needless."""

from k25serve.drafters.registry import load_registry
from k25serve.drafters.training.estimate.estimate import Estimate
from k25serve.drafters.training.estimate.options import PACKAGED_TARGET
from k25serve.drafters.training.estimate.target_facts import read_target

SHOWN = 3


def native_drafters(found: Estimate) -> list[str]:
    """EAGLE-3 drafters that were trained for Kimi-K2.5, where the target has its sizes: best first."""
    known = read_target(PACKAGED_TARGET)
    if (found.target.hidden_size, found.target.layers, found.target.vocab_size) != (
        known.hidden_size,
        known.layers,
        known.vocab_size,
    ):
        return []
    ranked = load_registry().ranked("K2.5")
    native = [entry for entry in ranked if entry.trained_for == "K2.5" and entry.algorithm == "eagle3"]
    return [
        f"`{entry.repo}`" + (f" (published accept length {_lengths(entry.expected())})" if entry.acceptance else "")
        for entry in native[:SHOWN]
    ]


def gates(found: Estimate, profile: str) -> list[str]:
    """Go or no-go, in order, as Markdown items."""
    natives = native_drafters(found)
    first = (
        "**Is there one already?** Drafters that were trained for this target: " + ", ".join(natives) + ". "
        "Download the first, then `k25serve drafter check`, then serve it and `k25serve drafter gate`."
        if natives
        else "**Is there one already?** `k25serve drafter list` names what is public; "
        "by its sizes none is for this target."
    )
    days = found.hours.total / 24
    return [
        first + " *Stop here where it passes: nothing below is needed.*",
        "**Does speculation pay at your load at all?** `k25serve bench plan`, then `k25serve prove` with that drafter. "
        "On 8x RTX PRO 6000 the public gain with 3 draft tokens is 1.3x at 1 request, 1.1x at 64 and none at 128. "
        "*No-go where your load is beyond the break-even.*",
        "**Is your traffic out of the drafter's domain?** Compare `k25serve drafter gate` by class with what was "
        "published. More training in the same domain gained about 2 % (2.30 to 2.345 accept length on real traffic, "
        "k-l-lambda on Kimi-K2.6); a new domain gained much more (Chinese 1.48 to 2.30, lightseekorg's second phase). "
        "*No-go where accept length is within 10 % of the published one: 2 % do not pay for "
        f"{days:.1f} days.*",
        "**Does the pipeline work here?** The `--smoke` run below, with the real engine. *No-go while it does not end "
        "with a drafter that passes `k25serve drafter check`.*",
        "**Are the states right?** `k25serve drafter train capture --check` on the smoke run's states: every layer its "
        "own. *No-go on any fault: a drafter that is trained on shifted layers accepts nothing.*",
        "**Does the loss fall, does held-out acceptance rise?** After a tenth of the samples. *No-go where held-out "
        "acceptance is not above the first checkpoint's (a warm start's own).*",
        "**Is it better than what you had?** `k25serve drafter compare none=PROFILE old=PROFILE new=PROFILE` with "
        f"profiles that extend `{profile}`, greedy and on your prompts. *Serve the new one only where it wins.*",
    ]


def _lengths(expected: dict[str, float]) -> str:
    return ", ".join(f"{name} {length:.2f}" for name, length in expected.items())
