"""Rules `dtype` and `quantization`: the drafter's numbers are what the engine takes them for."""

from typing import Any

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, refused
from k25serve.drafters.checkpoint.header import FLOATS

CODES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
PACKED = (
    "weight_packed",
    "weight_scale",
    "weight_shape",
    "weight_zero_point",
    "weight_global_scale",
    "qweight",
    "qzeros",
)


def judge_dtype(facts: Facts) -> Judgement:
    """One float dtype, the config's and the target's."""
    found = sorted({t.dtype for t in facts.drafter.tensors().values() if t.dtype in FLOATS})
    written = _code(facts.config)
    target = _code(facts.target.text_config) or _code(facts.target.config) or facts.target.embedding.dtype
    wanted = target.lower()
    if found != [target]:
        return refused(
            f"weights are {' and '.join(found) or 'no floats'}, the target is {target}",
            facts.adapt_command(f"eagle --dtype {wanted}"),
        )
    if written not in ("", target):
        return refused(
            f"config.json says {written}, weights and target are {target}", "write the weights' dtype into config.json"
        )
    return passed(f"{target}, as the target's")


def judge_quantization(facts: Facts) -> Judgement:
    """The launch states the drafter's quantization, and the weights are stored that way.

    Not stated, it is the target's where that is given by flag (SGLang 0.5.23, arg_groups/serving_hook.py), and plain
    weights then fail to load.
    """
    target, own, stated = (
        facts.target.quantization,
        facts.config.get("quantization_config"),
        facts.options.draft_quantization,
    )
    method = _method(own)
    packed = [name for name in facts.drafter.names if name.rpartition(".")[2] in PACKED]
    flag = "--speculative-draft-model-quantization"
    if packed and method is None:
        return refused(
            f"packed weights ({packed[0]}) without a quantization_config", "put the quantizer's config.json beside them"
        )
    if stated is None and target is not None and method is None:
        return refused(
            f"the target is quantized ({_method(target)}) and the launch does not state the drafter's quantization, "
            "so that it may inherit it; its weights are plain",
            f"launch SGLang with {flag} unquant (check: --draft-quantization unquant)",
        )
    if stated == "unquant" and method is not None:
        return refused(
            f"the drafter is quantized ({method}), the launch states unquant, as every profile here does",
            f"use a drafter of plain weights, or launch SGLang yourself with {flag} {method}",
        )
    if stated not in (None, "unquant", method):
        return refused(
            f"the launch states {stated}, the drafter is {method or 'plain'}",
            f"launch SGLang with {flag} {method or 'unquant'}",
        )
    return passed(
        f"{'plain weights' if method is None else method}; the target's {_method(target) or 'none'} is not inherited"
    )


def _method(config: Any) -> str | None:
    return str(config.get("quant_method", "unknown")) if isinstance(config, dict) else None


def _code(config: dict[str, Any]) -> str:
    text = str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")
    return CODES.get(text, text)
