"""`--smoke`: the same run with ten samples and a few steps, every step done for real."""

from typing import Any

from k25serve.drafters.training.run.options import RunConfig
from k25serve.drafters.training.settings import validated

SAMPLES, HELD_OUT = 10, 0.3
STEPS, PROMPTS, TOKENS = 4, 4, 32


def smoke(config: RunConfig) -> RunConfig:
    """Ten conversations, four training steps, four prompts of the gate."""
    values: dict[str, Any] = config.model_dump()
    data = values["data"]
    data |= {"max_conversations": SAMPLES, "held_out": max(HELD_OUT, data["held_out"])}
    if data["packaged"]:
        data["packaged"] = min(data["packaged"], 4 * SAMPLES)
    values["fit"] |= {"max_steps": STEPS, "max_minutes": None, "epochs": None, "evaluate_every": STEPS // 2}
    if values["gate"] is not None:
        values["gate"] |= {"prompts": PROMPTS, "max_tokens": TOKENS}
    return validated(RunConfig, values)
