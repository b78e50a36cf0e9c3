"""What an engine that captures must not do: each way of running that splits, skips or moves a prompt's tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limit:
    """A server argument with the one value that lets states be captured whole."""

    name: str
    wanted: Any
    why: str
    remedy: str


LIMITS = (
    Limit("disable_radix_cache", True, "a cached prefix is not computed again", "start with --disable-radix-cache"),
    Limit("speculative_algorithm", None, "a drafter's engine runs other forwards", "set speculation.algorithm: none"),
    Limit("enable_dp_attention", False, "each rank has other tokens", "start without --enable-dp-attention"),
    Limit("dp_size", 1, "each replica would write for itself", "start with one replica"),
    Limit("pp_size", 1, "no rank has all layers", "start with --pp-size 1"),
    Limit("attn_cp_size", 1, "each rank has other tokens", "start without context parallelism"),
    Limit("dcp_size", 1, "each rank has other tokens", "start without context parallelism"),
    Limit("enable_prefill_cp", False, "each rank has other tokens", "start without context parallelism"),
    Limit("enable_layernorm_sp", False, "each rank has other tokens", "start without --enable-layernorm-sp"),
    Limit("moe_dense_tp_size", None, "each rank has other tokens", "start without --moe-dense-tp-size"),
    Limit("moe_a2a_backend", "none", "each rank has other tokens", "start without --moe-a2a-backend"),
    Limit(
        "enable_attn_tp_input_scattered",
        False,
        "each rank has other tokens",
        "start without --enable-attn-tp-input-scattered",
    ),
    Limit("enable_two_batch_overlap", False, "a batch runs in halves", "start without --enable-two-batch-overlap"),
    Limit("enable_single_batch_overlap", False, "layers overlap", "start without --enable-single-batch-overlap"),
)


def hindrance(arguments: Mapping[str, Any], prefill_graphs: bool) -> str | None:
    """Why an engine with these resolved server arguments can't capture, and the remedy; None where it can.

    An argument that a version does not have hinders nothing. prefill_graphs: whether prefill runs as a CUDA graph.
    """
    for limit in LIMITS:
        found = arguments.get(limit.name, limit.wanted)
        if found != limit.wanted and not (limit.name == "moe_a2a_backend" and found is None):
            return f"{limit.name} is {found!r}: {limit.why}; {limit.remedy}"
    chunk = arguments.get("chunked_prefill_size", -1)
    if chunk is None or chunk > 0:
        return f"chunked_prefill_size is {chunk}: a prompt would come in pieces; start with --chunked-prefill-size -1"
    if prefill_graphs:
        return "prefill runs as a CUDA graph, past this row's code; start with --disable-prefill-cuda-graph"
    return None
