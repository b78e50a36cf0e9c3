"""A result's tables, as text."""

from collections.abc import Iterator
from typing import Any

from k25serve.bench.kernels.bars import bars_of
from k25serve.bench.kernels.contenders import OURS


def lines(data: dict[str, Any]) -> Iterator[str]:
    """Times in us, the fraction of copy bandwidth and the error of ours, a line a shape; then a line a bar."""
    names = list(data["shapes"][0]["contenders"])
    yield f"copy {data['copy_bytes_per_second'] / 1e12:.2f} TB/s; two empty launches {data['launch_floor_us']:.1f} us"
    yield "| batch x prefix | roof | " + " | ".join(names) + " | fraction | error |"
    yield "|---" * (len(names) + 4) + "|"
    for row in data["shapes"]:
        found = row["contenders"]
        times = " | ".join(f"{found[name]['us']:,.1f}" for name in names)
        fraction = row["roof_us"] / found[OURS]["us"]
        name = f"{row['batch']} x {row['prefix'] // 1024}k"
        yield f"| {name} | {row['roof_us']:,.1f} | {times} | {fraction:.2f} | {found[OURS]['error']:.2e} |"
    for bar in bars_of(data):
        sign = "<=" if bar.at_most else ">="
        yield f"{'met ' if bar.met else 'MISS'} {bar.name}: {bar.found:.2f} (bar {sign} {bar.wanted:g})"
