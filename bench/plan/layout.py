"""TP=N against TP=N/2 x PP=2 from the same terms. Nobody has published the second for this model: a projection only.

Halving the tensor-parallel ranks doubles the split weights that a GPU reads in its half of the layers, and a step
passes both halves one after the other. Twice as many requests as one micro-batch keep both halves busy, so the step of
C requests takes what one micro-batch of C/2 takes through the whole pipeline.
"""

from dataclasses import dataclass

from k25serve.bench.plan.architecture import Architecture
from k25serve.bench.plan.calibration import AllReduce
from k25serve.bench.plan.curve import KIB, StepCurve, all_reduce_ms
from k25serve.bench.plan.roofline import Hardware, loads


@dataclass(frozen=True, slots=True)
class LayoutCell:
    """Decode step times at one concurrency, context 0; ms."""

    concurrency: int
    tensor_ms: float
    pipeline_ms: float

    @property
    def speedup(self) -> float:
        """Of the pipeline of two halves over tensor parallelism alone."""
        return self.tensor_ms / self.pipeline_ms


def narrower(link: AllReduce, ranks: int, of: int) -> AllReduce:
    """A ring's cost over fewer ranks: start-up by its 2 (n - 1) hops, bytes by 2 (n - 1) / n. Measure it instead."""
    hops = (of - 1) / (ranks - 1)
    return AllReduce(
        alpha_us=link.alpha_us * hops,
        beta_us_per_kib=link.beta_us_per_kib * hops * ranks / of,
        calls=link.calls,
        source=f"scaled from {ranks} to {of} ranks as a ring; {link.source}",
    )


def compare_layouts(
    curve: StepCurve, hardware: Hardware, ranks: int, concurrency: int, half: AllReduce | None = None
) -> LayoutCell:
    """One cell. `half`: the all-reduce over half the ranks, measured; None scales the known one as a ring."""
    link = half or narrower(curve.link, ranks, ranks // 2)
    micro = max(1.0, concurrency / 2)
    return LayoutCell(concurrency, curve.step_ms(concurrency, 0), _pipeline_ms(curve, hardware, ranks, micro, link))


def _pipeline_ms(curve: StepCurve, hardware: Hardware, ranks: int, tokens: float, link: AllReduce) -> float:
    """One micro-batch through both halves."""
    terms = curve.terms(tokens, 0)
    measured = 1 + terms.measured / (terms.fixed + terms.experts + terms.all_reduce)
    # Of the fixed part, the split dense weights are read at half the width; the rest stays.
    dense = sum(
        part.bytes(ranks) for part in loads(curve.architecture, tokens) if part.split and part.name != "routed experts"
    )
    added = dense / hardware.hbm_tb_s / 1e9
    own = (terms.fixed + added + 2 * terms.experts) * measured
    return own + all_reduce_ms(link, curve.architecture, tokens) + _hop_ms(curve.architecture, link, tokens)


def _hop_ms(architecture: Architecture, link: AllReduce, tokens: float) -> float:
    """Hidden states and residual from one half to the other, at most what an all-reduce of that size costs."""
    kib = 2 * architecture.token_bytes * tokens / KIB
    return (link.alpha_us + link.beta_us_per_kib * kib) / 1000
