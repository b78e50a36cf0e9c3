"""Bytes and FLOP of one step on one GPU, the time that memory alone would take, and where the rest of the step went."""

from dataclasses import dataclass

from k25serve.bench.plan.architecture import Architecture
from k25serve.bench.plan.data_files import Part, choose, packaged
from k25serve.bench.trace.report import TraceReport


class Hardware(Part):
    """Peak rates of one device."""

    hbm_tb_s: float
    bf16_tflop_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Load:
    """What one part of the model costs one GPU in one step. `split`: over the ranks, else every rank has all of it."""

    name: str
    weights: float  # parameters read, over all ranks
    bits: float
    flop_per_token: float
    split: bool

    def bytes(self, ranks: int) -> float:
        """Weight bytes that one of `ranks` GPUs reads."""
        return self.weights * self.bits / 8 / (ranks if self.split else 1)


@dataclass(frozen=True, slots=True)
class Roofline:
    """One step on one GPU: bytes by part, FLOP, and the times that memory and arithmetic alone would take."""

    tokens: int
    bytes_by_part: dict[str, float]
    flop: float
    memory_ms: float
    compute_ms: float

    @property
    def bytes(self) -> float:
        """All bytes."""
        return sum(self.bytes_by_part.values())

    @property
    def ideal_ms(self) -> float:
        """The longer of the two: no step can be shorter."""
        return max(self.memory_ms, self.compute_ms)


def load_hardware(name: str) -> Hardware:
    """A device by name."""
    return Hardware.model_validate(choose("--hardware", name, packaged("hardware")))


def loads(architecture: Architecture, tokens: float) -> tuple[Load, ...]:
    """The model's parts for a step of `tokens` tokens, in DeepSeek-V3's layout under tensor parallelism."""
    a = architecture
    layers, moe = a.num_hidden_layers, a.moe_layers
    head = a.qk_nope_head_dim + a.qk_rope_head_dim
    latent = a.kv_lora_rank + a.qk_rope_head_dim
    down = (
        layers * a.hidden_size * (a.q_lora_rank + latent)
    )  # q_a and kv_a: SGLang and vLLM keep them whole on each rank
    up = (
        layers
        * a.num_attention_heads
        * (a.q_lora_rank * head + a.kv_lora_rank * (a.qk_nope_head_dim + a.v_head_dim) + a.v_head_dim * a.hidden_size)
    )
    expert = 3 * a.hidden_size * a.moe_intermediate_size
    dense = a.first_k_dense_replace * 3 * a.hidden_size * a.intermediate_size
    shared = moe * a.n_shared_experts * expert
    router = moe * a.hidden_size * a.n_routed_experts
    lm_head = a.vocab_size * a.hidden_size
    routed = moe * expert
    return (
        Load("attention, every rank", down, a.dense_bits, 2 * down, split=False),
        Load("attention, split", up, a.dense_bits, 2 * up, split=True),
        Load(
            "routed experts",
            routed * a.unique_experts(tokens),
            a.expert_bits,
            2 * routed * a.num_experts_per_tok,
            split=True,
        ),
        Load("shared experts", shared, a.dense_bits, 2 * shared, split=True),
        Load("dense layers", dense, a.dense_bits, 2 * dense, split=True),
        Load("router, every rank", router, a.dense_bits, 2 * router, split=False),
        Load("output head", lm_head, a.dense_bits, 2 * lm_head, split=True),
    )


def roofline(
    architecture: Architecture, hardware: Hardware, ranks: int, concurrency: int, context: int, k: int = 0
) -> Roofline:
    """One decode or verify step: `concurrency` requests of `context` tokens, k draft tokens each beside the bonus one.

    The KV cache of MLA is whole on every rank and read once a request; its arithmetic is the absorbed form.
    """
    a, tokens = architecture, concurrency * (k + 1)
    parts = loads(a, tokens)
    latent = a.kv_lora_rank + a.qk_rope_head_dim
    by_part = {part.name: part.bytes(ranks) for part in parts}
    by_part["KV cache"] = concurrency * context * a.num_hidden_layers * latent * a.kv_bits / 8
    flop = tokens * sum(part.flop_per_token / (ranks if part.split else 1) for part in parts)
    heads = a.num_attention_heads / ranks
    flop += tokens * context * a.num_hidden_layers * heads * 2 * (latent + a.kv_lora_rank)
    return Roofline(
        tokens=tokens,
        bytes_by_part=by_part,
        flop=flop,
        memory_ms=sum(by_part.values()) / hardware.hbm_tb_s / 1e9,
        compute_ms=flop / hardware.bf16_tflop_s / 1e9,
    )


@dataclass(frozen=True, slots=True)
class Gap:
    """Time of a step beyond the roofline, by cause; ms."""

    name: str
    ms: float


def gaps_from_trace(report: TraceReport, ideal: Roofline) -> tuple[Gap, ...]:
    """Where the time went in a profiled step, largest first. Parts add up to the step's span beyond the roofline."""
    rank = next(rank for rank in report.ranks if rank.rank == report.timeline.rank)
    mode = next(mode for mode in rank.modes if mode.mode == report.mode)
    exposed = {row.name: row.exposed_ms for row in mode.classes}
    links = exposed["all_reduce"] + exposed["collective"]
    rest = mode.span_ms - links - mode.gap_ms - ideal.ideal_ms
    return _by_size(
        Gap("communication, exposed", links),
        Gap("no kernel runs (launches, host)", mode.gap_ms),
        Gap("kernels below the roofline", rest),
    )


def gaps_from_terms(step_ms: float, all_reduce_ms: float, ideal: Roofline) -> tuple[Gap, ...]:
    """The same from a step time and the links' cost, where there is no trace: all-reduces taken as exposed."""
    rest = step_ms - all_reduce_ms - ideal.ideal_ms
    return _by_size(Gap("all-reduce, if none of it is hidden", all_reduce_ms), Gap("everything else", rest))


def _by_size(*gaps: Gap) -> tuple[Gap, ...]:
    return tuple(sorted(gaps, key=lambda gap: -gap.ms))
