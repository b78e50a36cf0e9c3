"""Is it the same model on both sides."""

from collections.abc import Iterator

from k25serve.bench.ab.result import AbData, Parity
from k25serve.bench.ab.table import parity_line
from k25serve.bench.report.bodies import GpuParity
from k25serve.bench.report.document import Block, Listing, Table, Text
from k25serve.bench.report.numbers import number
from k25serve.bench.report.sources import Source, Sources


def parity(sources: Sources) -> tuple[Block, ...]:
    """A/Bs' audits, then greedy answers of the GPU stage."""
    blocks: list[Block] = []
    for source, data in sources.of(AbData):
        if data.parity is not None:
            blocks += _ab(source, data.parity)
    for source, gpu in sources.of(GpuParity):
        blocks.append(
            Table(
                ("reference / compared", "prompts", "equal", "largest gap, nat"),
                tuple(
                    (name, str(one.prompts), str(one.equal), number(one.largest_gap))
                    for name, one in gpu.greedy.items()
                ),
                f"{source.label}: greedy answers; gap of the reference's two best logits where answers part",
            )
        )
    return tuple(blocks)


def _ab(source: Source, found: Parity) -> Iterator[Block]:
    yield Text(f"{source.label}: {parity_line(found)}")
    if found.reasons:
        yield Listing(found.reasons)
    rows = [
        (name, str(one.prompts), str(one.diverged), one.unit, number(max(one.gaps)) if one.gaps else "-")
        for name, one in (("A and B", found.between), ("A and A again", found.within))
        if one is not None
    ]
    if rows:
        yield Table(("greedy answers", "prompts", "parted", "compared by", "largest gap, nat"), tuple(rows))
