"""Rule `context-length`: the drafter's positions reach as far as what is served."""

from k25serve.drafters.check.facts import Facts, derived_context
from k25serve.drafters.check.report import Judgement, passed, refused, warned


def judge_context_length(facts: Facts) -> Judgement:
    """SGLang stops at start where the drafter's derived context is shorter (configs/model_config.py 0.5.23)."""
    own, served, target = derived_context(facts.config), facts.context_length, derived_context(facts.target.text_config)
    if served > target:
        return refused(
            f"context length {served} is more than the target's {target}",
            f"lower context_length (--context-length) to {target}",
        )
    if own < served:
        adapt = facts.adapt_command(f"kimi_k2 --context-length {served}")
        return refused(
            f"the drafter reaches {own} positions, {served} are to be served: SGLang stops at start",
            f"{adapt}, or lower context_length (--context-length) to {own}",
        )
    trained = facts.trained.get("max_position_embeddings")
    if isinstance(trained, int) and trained < served:
        return warned(
            f"the drafter reaches {own} positions by its adapter, but was trained to {trained}: "
            "acceptance is unknown beyond",
            f"measure it at length, or lower context_length (--context-length) to {trained}",
        )
    return passed(f"the drafter reaches {own}, {served} are to be served")
