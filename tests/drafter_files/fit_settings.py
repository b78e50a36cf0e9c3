"""Settings of a fit on the toy target: some milliseconds a step."""

from typing import Any

from drafter_files.toy import HEAD_DIM, HEADS, INNER, KV_HEADS

from k25serve.drafters.training.fit.options import FitOptions

VALUES: dict[str, Any] = {
    "draft_layer": {
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "rope_theta": 1e6,
        "max_position_embeddings": 512,
    },
    "optimizer": {"learning_rate": 0.01},
    "tokens_per_batch": 64,
    "max_steps": 12,
    "evaluate_every": 5,
    "checkpoint_every_steps": 2,
    "checkpoint_every_seconds": None,
    "device": "cpu",
    "threads": 1,
}


def toy_options(**changes: Any) -> FitOptions:
    return FitOptions.model_validate({**VALUES, **changes})
