"""Which options each adapter uses, as data: one that it would ignore is refused."""

from dataclasses import fields

from k25serve.drafters.adapters.draft import AdaptOptions
from k25serve.drafters.checkpoint import AdaptError

COMMON = ("aux_layers", "aux_convention", "accept_default_aux", "d2t_form", "dtype")
FOR_SGLANG = (*COMMON, "context_length", "lend_lm_head")
# Adapter -> the fields of AdaptOptions that one of its steps reads.
TAKES: dict[str, tuple[str, ...]] = {
    "kimi_k2": (*FOR_SGLANG, "counts", "keep_vocabulary"),
    "speculators": FOR_SGLANG,
    "specforge": FOR_SGLANG,
    "eagle": (*FOR_SGLANG, "layout"),
    "vllm": COMMON,
}


def refuse_ignored(adapter: str, options: AdaptOptions) -> None:
    """Raises AdaptError for an option that was given and that the adapter does not take."""
    for field in fields(options):
        if getattr(options, field.name) == field.default or field.name in TAKES[adapter]:
            continue
        takers = ", ".join(name for name, taken in TAKES.items() if field.name in taken)
        raise AdaptError(
            f"--{field.name.replace('_', '-')}: the adapter {adapter} does not use it; leave it out (taken by {takers})"
        )
