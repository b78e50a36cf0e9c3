"""Whether a mixture-of-experts layer works for a verify step of the target."""

from collections.abc import Callable
from typing import Any


class VerifyScope:
    """`active` while a layer's forward runs in the mode target_verify, CUDA graph capture included.

    A drafter has other modes, even where it is a mixture of experts.
    """

    def __init__(self) -> None:
        self.active = False

    def run(self, original: Callable[..., Any], layer: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `DeepseekV2MoE.forward`."""
        batch = args[0] if args else kwargs.get("forward_batch")
        self.active = batch is not None and batch.forward_mode.is_target_verify()
        try:
            return original(layer, hidden_states, *args, **kwargs)
        finally:
            self.active = False
