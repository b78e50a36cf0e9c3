"""Rule `aux-layers`: the drafter gets the hidden states that it was trained on, whichever way their numbers are meant.

Physical state k, here and in the report: what enters layer k, that is what leaves layer k-1. Two conventions are about
(sgl-project/sglang#25454): ids that name the layer that a state enters (input), or that it leaves (output).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, refused, warned

KEY = "eagle_aux_hidden_state_layer_ids"
EXAMPLE = "2,30,58"


def default_layers(layers: int) -> list[int]:
    """Physical states that SGLang and vLLM take where a drafter names none, for a target of `layers` layers."""
    return [2, layers // 2, layers - 3]


def sglang_layers(ids: Sequence[int]) -> list[int]:
    """SGLang 0.5.17 to 0.5.23 (models/deepseek_v2.py set_eagle3_layers_to_capture): plus one if the first id is 1."""
    return [layer + 1 for layer in ids] if ids and ids[0] == 1 else list(ids)


def old_sglang_layers(ids: Sequence[int]) -> list[int]:
    """SGLang before pull request 25454 (May 2026): plus one, always."""
    return [layer + 1 for layer in ids]


def vllm_layers(ids: Sequence[int]) -> list[int]:
    """vLLM (model_runner's _get_eagle3_aux_layers_from_config): as they are."""
    return list(ids)


ENGINES: dict[str, Callable[[Sequence[int]], list[int]]] = {
    "SGLang 0.5.17 to 0.5.23": sglang_layers,
    "SGLang before May 2026": old_sglang_layers,
    "vLLM": vllm_layers,
}


def trained_layers(ids: Sequence[int], convention: str) -> list[int]:
    """Physical states that the trainer meant; `auto` believes SGLang's rule."""
    if convention == "auto":
        return sglang_layers(ids)
    return [layer + 1 for layer in ids] if convention == "output" else list(ids)


def sglang_ids(physical: Sequence[int]) -> list[int] | None:
    """Ids by which SGLang 0.5.17 to 0.5.23 captures `physical`; None where its rule makes that impossible."""
    return None if physical and physical[0] == 1 else list(physical)


def stored_ids(config: dict[str, Any]) -> tuple[Any, str]:
    """The ids and where they are: in eagle_config, at the top, or nowhere (None, "")."""
    eagle = config.get("eagle_config")
    if isinstance(eagle, dict) and KEY in eagle:
        return eagle[KEY], f"eagle_config.{KEY}"
    return (config[KEY], KEY) if KEY in config else (None, "")


def judge_aux_layers(facts: Facts) -> Judgement:
    """Written where SGLang reads them, as many as fc takes, in order, inside the target, and not shifted by one."""
    eagle, layers = facts.config.get("eagle_config"), facts.target.size("num_hidden_layers")
    if isinstance(eagle, dict) and eagle.get("use_aux_hidden_state") is False:
        return warned(
            "use_aux_hidden_state is false: only the last hidden state reaches the drafter",
            "set it to true unless the drafter was trained so",
        )
    ids, place = stored_ids(facts.config)
    if ids is None:
        return _default(facts, layers)
    adapt = _adapt(facts)
    if not isinstance(ids, list) or not ids or not all(type(layer) is int for layer in ids):
        return refused(f"{place} is {ids!r}, a list of layer numbers belongs there", adapt)
    physical, convention = sglang_layers(ids), facts.options.aux_convention
    if convention == "auto" and facts.options.entry is not None and facts.options.entry.aux is not None:
        convention = facts.options.entry.aux.convention
    fault = _fault(facts, physical, layers)
    if fault:
        return refused(f"{place} {ids}: {fault}", adapt)
    meant = trained_layers(ids, convention)
    if meant != physical:
        return refused(
            f"{place} {ids}: trained on states {meant} ({convention} convention), SGLang would capture {physical}",
            facts.adapt_command(f"kimi_k2 --aux-layers {','.join(map(str, meant))} --aux-convention input"),
        )
    told = "; ".join(f"{engine}: {resolve(ids)}" for engine, resolve in ENGINES.items())
    if place == KEY:
        same = physical == default_layers(layers)
        verdict = warned if same else refused
        return verdict(
            f"{KEY} {ids} stands at the top, SGLang reads it in eagle_config only and takes {default_layers(layers)}"
            + (", which is the same" if same else ""),
            adapt,
        )
    return passed(f"{ids}, states that enter layers, by engine: {told}")


def _default(facts: Facts, layers: int) -> Judgement:
    default, default_command = default_layers(layers), facts.adapt_command("kimi_k2 --accept-default-aux")
    fault = _fault(facts, default, layers)
    if facts.options.accept_default_aux and not fault:
        return warned(
            f"config.json names no aux layers; {default} is taken, as you accepted",
            f"write them down: {default_command}",
        )
    return refused(
        f"config.json names no aux layers: the engine would guess {default}"
        + (f" ({fault})" if fault else ", and a wrong guess accepts nothing"),
        f"{_adapt(facts)}; or, if the trainer says that these are they, {default_command}",
    )


def _adapt(facts: Facts) -> str:
    return f"{facts.adapt_command(f'kimi_k2 --aux-layers {EXAMPLE}')}, with the trainer's ids for {EXAMPLE}"


def _fault(facts: Facts, physical: list[int], layers: int) -> str:
    if len(physical) != facts.aux_states:
        return f"{len(physical)} layers, fc takes {facts.aux_states} states"
    if not all(1 <= layer < layers for layer in physical):
        return f"captured are states {physical}, the target has 1 to {layers - 1}"
    if any(second <= first for first, second in pairwise(physical)):
        return (
            f"captured are states {physical}, which do not ascend: the engine hands them over in layer order, each once"
        )
    return ""
