"""Does the drafter work, before the sweep is spent on it."""

from k25serve.bench.prove.step import Arm, Outcome, Scene, StepFailed, skipped
from k25serve.drafters.check.report import Verdict
from k25serve.drafters.checkpoint.errors import DrafterError
from k25serve.drafters.gate import GateSettings, run_gate, write_json
from k25serve.drafters.registry import load_registry
from k25serve.server.config import load_profile


async def gate(scene: Scene, arm: Arm) -> Outcome:
    """Raises StepFailed where the drafter is refused by the profile's policy, or the engine doesn't answer."""
    profile = load_profile(arm.name, need_models=False)
    if profile.speculation.algorithm == "none":
        return skipped("the profile does not speculate")
    try:
        settings = GateSettings(
            accept_floor=profile.gate.accept_floor,
            policy="refuse" if profile.gate.policy == "refuse" else "warn",
            expected=load_registry().get(profile.gate.entry).expected() if profile.gate.entry else {},
            timeout_s=scene.timeout_s,
        )
        result = await run_gate(scene.engine().root, settings)
    except DrafterError as error:
        raise StepFailed(f"gate of {arm.name}: {error}") from None
    file = scene.results / "drafter-gate" / f"{arm.key}.json"
    write_json(result.as_json(), file)
    length = result.overall.accept_length
    told = f"{result.verdict.value}: accept length {'not told' if length is None else f'{length:.2f}'}"
    told += "".join(f"; {reason}" for reason in result.reasons)
    if result.verdict is Verdict.REFUSE:
        raise StepFailed(f"gate of {arm.name}: {told}")
    return Outcome(told, file)
