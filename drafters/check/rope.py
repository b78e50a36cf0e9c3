"""Rule `rope`: rotary embedding as trained. A drafter keeps its own; the target's yarn is none of its business."""

from collections.abc import Mapping
from typing import Any

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, refused

PLAIN = (None, "default")
NEEDS_FACTOR = ("yarn", "linear", "dynamic", "longrope", "llama3")


def rope_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Theta, type and scaling in one form, whichever of the two ways the config spells them.

    transformers 5 writes `rope_parameters`, earlier ones `rope_theta` and `rope_scaling` (`type` or `rope_type`).
    """
    new, old = (_object(config.get(key)) for key in ("rope_parameters", "rope_scaling"))
    merged = {**old, **new}
    kind = merged.pop("rope_type", None) or merged.pop("type", None)
    merged.pop("type", None)
    theta = merged.pop("rope_theta", None) or config.get("rope_theta")
    return {"theta": theta, "type": None if kind in PLAIN else kind, **({} if kind in PLAIN else merged)}


def judge_rope(facts: Facts) -> Judgement:
    """Complete, one meaning, and the same as at training where that is known (provenance, registry)."""
    config, own = facts.config, rope_of(facts.config)
    if own["theta"] is None:
        return refused(
            "config.json has no rope_theta: the engine would take 10000",
            "write the trainer's rope_theta into config.json",
        )
    clash = _clash(config)
    if clash:
        return refused(clash, "keep the one that the drafter was trained with and delete the other")
    if own["type"] in NEEDS_FACTOR and not own.get("factor"):
        return refused(
            f"rope type {own['type']} without a factor", "write the trainer's rope_scaling into config.json whole"
        )
    for source, known in _known(facts).items():
        if rope_of(known) != own:
            return refused(
                f"rope is {_text(own)}, but {source} says that it was trained with {_text(rope_of(known))}",
                "write the trained values back into config.json; do not copy the target's",
            )
    target = _text(rope_of(facts.target.text_config))
    return passed(f"{_text(own)}; the target's is {target}: the drafter keeps its own rope as trained")


def _clash(config: Mapping[str, Any]) -> str:
    new, old = (_object(config.get(key)) for key in ("rope_parameters", "rope_scaling"))
    if not new:
        return ""
    thetas = {new.get("rope_theta"), config.get("rope_theta")} - {None}
    if len(thetas) > 1:
        return f"rope_theta {config['rope_theta']} and rope_parameters.rope_theta {new['rope_theta']} differ"
    if old and rope_of({"rope_scaling": old}) | {"theta": None} != rope_of({"rope_parameters": new}) | {"theta": None}:
        return f"rope_scaling {old} and rope_parameters {new} differ"
    return ""


def _known(facts: Facts) -> dict[str, dict[str, Any]]:
    known = {"provenance.json": facts.trained["rope"]} if isinstance(facts.trained.get("rope"), dict) else {}
    entry = facts.options.entry
    if entry is not None and entry.rope is not None:
        known[f"the registry ({entry.repo})"] = entry.rope
    return known


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(rope: Mapping[str, Any]) -> str:
    scaling = ", ".join(f"{key} {value}" for key, value in rope.items() if key not in ("theta", "type"))
    return f"theta {rope['theta']}, " + (f"{rope['type']} ({scaling})" if rope["type"] else "no scaling")
