"""Traces with known answers, in Kineto's layout: for tests, and for measuring the reader on files of any size."""

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = (
    "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align8>"
    "(cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align8::Params)"
)
MARLIN = (
    "void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l, 1125899906909960l, 128, 1, 8, 8, false, 4>"
    "(int4 const*, int4 const*, int4*, int4*, int4 const*, unsigned short const*, int)"
)
ATTENTION = "_fwd_grouped_kernel_stage1"
NORM = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long, c10::BFloat16*, int)"
BASE_NS = 1_790_857_026_000_000_000
PADDING = 16  # host events beside each kernel of a large file, as a trace with Python stacks has


class Row(NamedTuple):
    """An event to write. Times in us; `args` goes in as it is."""

    category: str
    name: str
    start: float
    dur: float
    thread: int = 7
    args: Mapping[str, object] = MappingProxyType({})


def kernel(name: str, start: float, dur: float, stream: int = 7, correlation: int = -1, **more: object) -> Row:
    """A device kernel; without a correlation it is an orphan."""
    args: dict[str, object] = {"device": 0, "context": 1, "stream": stream}
    if correlation >= 0:
        args["correlation"] = correlation
    return Row("kernel", name, start, dur, stream, {**args, **more})


def launch(name: str, start: float, correlation: int) -> Row:
    """A call of the CUDA runtime."""
    return Row("cuda_runtime", name, start, 2.0, 4242, {"cbid": 211, "correlation": correlation})


def span(name: str, start: float, dur: float) -> Row:
    """A range that the engine marked."""
    return Row("user_annotation", name, start, dur, 4242, {"External id": 1})


def text(row: Row) -> bytes:
    """An event as Kineto writes it, without the braces around it."""
    args = b", ".join(orjson.dumps(key) + b": " + orjson.dumps(value) for key, value in row.args.items())
    return (
        b'    "ph": "X", "cat": %b, "name": %b, "pid": 0, "tid": %d,\n    "ts": %.3f, "dur": %.3f,\n'
        b'    "args": {\n      %b\n    }'
    ) % (orjson.dumps(row.category), orjson.dumps(row.name), row.thread, row.start, row.dur, args)


def header(rank: int | None = None, world_size: int = 1, *, base_ns: int | None = BASE_NS, cpu: bool = False) -> bytes:
    """A file's beginning, up to its first event."""
    keys: dict[str, object] = {"schemaVersion": 1, "deviceProperties": [] if cpu else [{"id": 0, "name": "synthetic"}]}
    if rank is not None:
        keys["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size}
    if base_ns is not None:
        keys["baseTimeNanoseconds"] = base_ns
    body = b",\n".join(b"  " + orjson.dumps(key) + b": " + orjson.dumps(value) for key, value in keys.items())
    return b"{\n" + body + b',\n  "traceEvents": [\n'


def write(path: Path, rows: Iterable[Row], head: bytes | None = None) -> Path:
    """Write one rank's file; gzip where its name ends in .gz."""
    body = b",\n".join(b"  {\n" + text(row) + b"\n  }" for row in rows)
    content = (header() if head is None else head) + body + b'\n  ],"traceName": "synthetic"\n}\n'
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


def decode_steps(count: int, layers: int, *, period_us: float = 12_100.0, late_us: float = 0.0) -> Iterator[Row]:
    """Steps of a transformer of `layers` layers in SGLang's ranges: each one graph replay, then an eager argmax."""
    correlation = 0
    for step in range(count):
        at = step * period_us
        correlation += 2
        yield span("step[DECODE bs=1]", at, 300.0)
        yield launch("cudaGraphLaunch", at + 10, correlation)
        now = at + 20 + late_us
        for _ in range(layers):
            for name, dur in ((NORM, 3.0), (ATTENTION, 20.0), (GEMM, 12.0), (NCCL, 40.0 - late_us), (MARLIN, 30.0)):
                yield kernel(name, now, dur, correlation=correlation)
                now += dur
        yield launch("cudaLaunchKernel", at + 200, correlation + 1)
        yield kernel("void at::native::ArgMaxOps<float>argmax_kernel", now, 5.0, correlation=correlation + 1)


def write_large(folder: Path, ranks: int, size: int, *, layers: int = 61) -> list[Path]:
    """`ranks` files of at least `size` bytes each: decode steps, with host events between them as profilers write."""
    return [_write_large(folder / f"large-TP-{rank}.trace.json", rank, ranks, size, layers) for rank in range(ranks)]


def _write_large(path: Path, rank: int, ranks: int, size: int, layers: int) -> Path:
    step, period = list(decode_steps(1, layers)), 12_100.0
    with path.open("wb") as file:
        written = file.write(header(rank, ranks))
        number = 0
        while written < size:
            rows = _moved(step, number, period)
            block = b",\n".join(b"  {\n" + one + b"\n  }" for one in _with_host_events(rows, number))
            written += file.write((b",\n" if number else b"") + block)
            number += 1
        file.write(b'\n  ],"traceName": "synthetic"\n}\n')
    return path


def _moved(rows: Sequence[Row], number: int, period: float) -> Iterator[Row]:
    for row in rows:
        args = dict(row.args)
        if "correlation" in args:
            args["correlation"] = int(str(args["correlation"])) + 2 * number
        if row.category == "kernel":
            args |= {
                "registers per thread": 168,
                "shared memory": 49152,
                "blocks per SM": 0.757576,
                "grid": [100, 1, 1],
                "block": [256, 1, 1],
                "est. achieved occupancy %": 9,
            }
        yield row._replace(start=row.start + number * period, args=args)


def _with_host_events(rows: Iterator[Row], number: int) -> Iterator[bytes]:
    host = [
        text(Row("cpu_op", "aten::empty_strided", number * 12_100.0, 4.5, 4242, {"External id": number, "Ev Idx": 7})),
        text(
            Row(
                "python_function",
                "sglang/srt/layers/linear.py(1289): forward",
                number * 12_100.0,
                44.5,
                4242,
                {"Python parent id": 19, "Python id": number, "Ev Idx": 8},
            )
        ),
    ] * (PADDING // 2)
    for index, row in enumerate(rows):
        yield text(row)
        if index % 8 == 0:
            yield from host
