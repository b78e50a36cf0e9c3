"""Names of tensors in the three layouts that are about, as data. Missing or unknown names raise.

midlayer        midlayer.*         SpecForge, EAGLE's own code, most checkpoints for SGLang
layers          layers.0.*         speculators, vLLM, TorchSpec's MLA drafters
model-layers    model.layers.0.*   what saving a whole causal model gives
"""

import re
from collections.abc import Iterable

from k25serve.drafters.adapters.draft import Layout
from k25serve.drafters.check.layout import HARMLESS, LAYER
from k25serve.drafters.checkpoint import AdaptError, did_you_mean

# The layer's prefix, and that of all else but BARE.
PREFIXES: dict[Layout, tuple[str, str]] = {
    "midlayer": ("midlayer.", ""),
    "layers": ("layers.0.", ""),
    "model-layers": ("model.layers.0.", "model."),
}
REQUIRED = ("fc.weight", "norm.weight")
OPTIONAL = ("embed_tokens.weight", "fc.bias", "input_norm.weight", *(f"fc_norm.{index}.weight" for index in range(8)))
BARE = ("lm_head.weight", "d2t", "t2d")
# Names of before fc_norm had a list: SGLang 0.5.23, models/llama_eagle3.py.
LEGACY = {f"aux_norm_{level}.weight": f"fc_norm.{index}.weight" for index, level in enumerate(("low", "mid", "high"))}


def find_layout(names: Iterable[str]) -> Layout:
    """The layout of the layer's names. Raises AdaptError where there is none, or more than one."""
    every = tuple(names)
    found: list[Layout] = [layout for layout, (layer, _) in PREFIXES.items() if any(n.startswith(layer) for n in every)]
    if len(found) != 1:
        what = f"layers in {len(found)} layouts ({', '.join(found)})" if found else "no layer"
        raise AdaptError(
            f"tensors: {what} under {', '.join(layer for layer, _ in PREFIXES.values())}"
            f"{did_you_mean('midlayer.self_attn.q_proj.weight', every)}; point --drafter at an EAGLE-3 drafter"
        )
    return found[0]


def layer_names(architecture: str) -> tuple[str, ...]:
    """The layer's tensors, all required, without a prefix."""
    return tuple(LAYER[architecture])


def key_map(architecture: str, layout: Layout) -> dict[str, str]:
    """Stored name -> canonical name (`midlayer.…`), for every name that the layout may hold."""
    layer, other = PREFIXES[layout]
    mapped = {f"{layer}{name}": f"midlayer.{name}" for name in layer_names(architecture)}
    top = {**{name: name for name in (*REQUIRED, *OPTIONAL)}, **LEGACY}
    # A model-layers file may have the rest bare: it was renamed by half.
    mapped |= top | {f"{other}{name}": canonical for name, canonical in top.items()}
    return mapped | {name: name for name in BARE}


def canonical_names(
    architecture: str, names: Iterable[str], drops: Iterable[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Canonical -> stored name, and the stored names left out (buffers, and those that fully match `drops`).

    Raises AdaptError with near names for a name that is unknown, missing or there twice.
    """
    every = list(names)
    mapping, found, left_out = key_map(architecture, find_layout(every)), dict[str, str](), list[str]()
    for name in every:
        if HARMLESS.search(name) or any(re.fullmatch(pattern, name) for pattern in drops):
            left_out.append(name)
            continue
        canonical = mapping.get(name)
        if canonical is None:
            raise AdaptError(
                f"tensor {name!r} is not one that {architecture} has{did_you_mean(name, mapping)}; "
                "use the adapter of its own format, or remove it if it is no weight"
            )
        if canonical in found:
            raise AdaptError(f"tensors {found[canonical]!r} and {name!r} are the same one; delete one of them")
        found[canonical] = name
    needed = (*REQUIRED, *(f"midlayer.{name}" for name in layer_names(architecture)))
    missing = [name for name in needed if name not in found]
    if missing:
        raise AdaptError(
            f"tensor {missing[0]!r} is missing{did_you_mean(missing[0], left_out)}"
            f" ({len(missing)} missing in all); the download is not complete, or this is no {architecture}"
        )
    return found, left_out


def written_name(canonical: str, layout: Layout) -> str:
    """A canonical name as the layout spells it."""
    layer, other = PREFIXES[layout]
    if canonical in BARE:
        return canonical
    if canonical.startswith("midlayer."):
        return layer + canonical.removeprefix("midlayer.")
    return other + canonical
