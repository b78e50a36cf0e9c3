"""Server arguments that the CPU reference can't honour."""

from typing import Any

_BACKEND = ((None, "torch_native"), "drop the flag: the reference takes torch_native's place")
_ALLOWED: dict[str, tuple[tuple[object, ...], str]] = {
    "device": (("cpu",), "pass --device cpu on the command line"),
    "attention_backend": _BACKEND,
    "prefill_attention_backend": _BACKEND,
    "decode_attention_backend": _BACKEND,
    "speculative_draft_attention_backend": _BACKEND,
    "speculative_use_rejection_sampling": ((False,), "drop the flag: its sampler is a Triton kernel"),
    "enable_deterministic_inference": ((False,), "drop the flag: its seeded sampler is a Triton kernel"),
}


def check(server_args: Any) -> None:
    """Refuse SGLang's raw `ServerArgs` where the reference would be bypassed or fail later.

    Raises ValueError naming the field, its value and the remedy.
    """
    for field, (allowed, remedy) in _ALLOWED.items():
        value = getattr(server_args, field)
        if value not in allowed:
            raise ValueError(f"{field}={value!r} is not in the CPU reference; {remedy}")
