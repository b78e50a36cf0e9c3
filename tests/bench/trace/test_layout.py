"""Trace files as streams: every packing and layout gives the same events, and no share comes from half a file."""

import gzip
from pathlib import Path

import orjson
import pytest

from k25serve.bench.trace import stream, synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.collect import collect
from k25serve.bench.trace.errors import DamagedTrace, TraceError
from k25serve.bench.trace.events import RankEvents
from k25serve.bench.trace.modes import SpanRules

ROWS = list(synthetic.decode_steps(3, 4))


def read(path: Path) -> RankEvents:
    return collect(path, SpanRules.load())


def facts(events: RankEvents) -> dict[str, object]:
    return {
        "names": sorted(events.names[i].name for i in events.device.name),
        "start": sorted(events.device.start.tolist()),
        "end": sorted(events.device.end.tolist()),
        "correlation": sorted(events.device.correlation.tolist()),
        "launches": sorted(events.launches.at.tolist()),
        "spans": [span.label for span in events.spans],
    }


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "a.json", ROWS)


def test_known_content(plain: Path) -> None:
    events = read(plain)
    assert len(events.device) == 3 * (4 * 5 + 1)
    assert events.device.start[0] == 20_000
    assert (events.device.end - events.device.start)[:2].tolist() == [3_000, 20_000]
    assert [span.mode for span in events.spans] == ["decode"] * 3
    assert events.launches.graph.tolist() == [1, 0] * 3
    assert not events.cpu


@pytest.mark.parametrize("layout", ["gz", "two members", "compact", "indented", "multi-line", "array", "shuffled"])
def test_every_layout_gives_the_same_events(tmp_path: Path, plain: Path, layout: str) -> None:
    content = orjson.loads(plain.read_bytes())
    path = tmp_path / "other.json"
    match layout:
        case "gz":
            path.write_bytes(gzip.compress(plain.read_bytes()))
        case "two members":
            text = plain.read_bytes()
            path.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]) + b"\0\0\0")
        case "compact":
            path.write_bytes(orjson.dumps(content))
        case "indented":
            path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
        case "multi-line":  # torch 2.14 writes each field of an event on its own line
            path.write_bytes(plain.read_bytes().replace(b'"ph": "X", "cat"', b'"ph": "X",\n    "cat"'))
        case "array":
            path.write_bytes(orjson.dumps(content["traceEvents"]))
        case "shuffled":
            path.write_bytes(orjson.dumps({**content, "traceEvents": content["traceEvents"][::-1]}))
    assert facts(read(path)) == facts(read(plain))


@pytest.mark.parametrize("chunk", [97, 1009])
@pytest.mark.parametrize("compact", [False, True])
def test_chunk_borders_do_not_matter(
    tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, compact: bool
) -> None:
    expected = facts(read(plain))
    path = tmp_path / "b.json"
    text = orjson.dumps(orjson.loads(plain.read_bytes())) if compact else plain.read_bytes()
    path.write_bytes(text)
    monkeypatch.setattr(stream, "CHUNK", chunk)
    assert facts(read(path)) == expected


def test_strings_with_braces_and_escapes_in_any_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = 'kernel<lambda() {a["}],\\{"]}> \\'
    path = tmp_path / "c.json"
    rows = [synthetic.kernel(name, 1.5, 2.25), synthetic.kernel("_fwd_kernel", 4.0, 1.0)]
    synthetic.write(path, rows)
    for chunk in (13, 1 << 20):
        monkeypatch.setattr(stream, "CHUNK", chunk)
        assert [one.name for one in read(path).names] == [name, "_fwd_kernel"]
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes())))
    for chunk in (13, 1 << 20):
        monkeypatch.setattr(stream, "CHUNK", chunk)
        assert [one.name for one in read(path).names] == [name, "_fwd_kernel"]


def test_epoch_time_stamps_keep_their_nanoseconds(tmp_path: Path) -> None:
    """Before torch 2.4 `ts` counts from 1970; a double holds those only to a quarter of a microsecond."""
    path = synthetic.write(tmp_path / "d.json", [synthetic.kernel("_fwd_kernel", 7.0, 1.0)])
    path.write_bytes(path.read_bytes().replace(b'"ts": 7.000', b'"ts": 1727222222000123.457'))
    assert read(path).device.start.tolist() == [1_727_222_222_000_123_457]


def eight_events(third: bytes, *, layout: str = "kineto") -> bytes:
    rows = [synthetic.text(synthetic.kernel("_fwd_kernel", float(i), 0.5)) for i in range(7)]
    rows.insert(2, third)
    joined = b",\n".join(b"  {\n" + row + b"\n  }" for row in rows)
    if layout == "compact":
        joined = joined.replace(b"\n", b"")
    return synthetic.header() + joined + b'\n  ],"traceName": "x"\n}\n'


RAW_QUOTES = (
    b'    "ph": "X", "cat": "%b", "name": "{"device": "cpu"}(12): run", "pid": 1, "tid": 1,\n    "ts": 2, "dur": 1'
)
CONTROL = b'    "ph": "X", "cat": "%b", "name": "a\x01b", "pid": 1, "tid": 1,\n    "ts": 2, "dur": 1'


@pytest.mark.parametrize("broken", [RAW_QUOTES, CONTROL], ids=["raw quotes", "control byte"])
@pytest.mark.parametrize("layout", ["kineto", "compact"])
def test_a_broken_host_event_is_skipped_and_counted(tmp_path: Path, broken: bytes, layout: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(eight_events(broken % b"user_annotation", layout=layout))
    events = read(path)
    assert len(events.device) == 7
    assert len(events.skipped) == 1
    report = analyse([path])
    assert "1 events could not be read" in " ".join(report.warnings)


@pytest.mark.parametrize("broken", [RAW_QUOTES, CONTROL], ids=["raw quotes", "control byte"])
def test_a_broken_host_operator_does_not_matter(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(eight_events(broken % b"cpu_op"))
    assert len(read(path).device) == 7


@pytest.mark.parametrize("broken", [RAW_QUOTES, CONTROL], ids=["raw quotes", "control byte"])
def test_a_broken_device_event_is_an_error_with_its_place(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(eight_events(broken % b"kernel"))
    with pytest.raises(DamagedTrace, match=r"broken\.json: a device event is not JSON") as caught:
        read(path)
    assert path.read_bytes()[caught.value.offset :].startswith(broken % b"kernel")


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_a_cut_gzip_is_an_incomplete_rank(tmp_path: Path, plain: Path, keep: float) -> None:
    packed = gzip.compress(plain.read_bytes())
    path = tmp_path / "cut-TP-0.trace.json.gz"
    path.write_bytes(packed[: int(len(packed) * keep)])
    with pytest.raises(DamagedTrace, match=r"cut-TP-0\.trace\.json\.gz: incomplete rank"):
        read(path)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("keep", [0.3, 0.97, 0.999])
def test_cut_text_is_an_incomplete_rank(tmp_path: Path, plain: Path, keep: float, compact: bool) -> None:
    text = orjson.dumps(orjson.loads(plain.read_bytes())) if compact else plain.read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(text[: int(len(text) * keep)])
    with pytest.raises(DamagedTrace, match="incomplete rank"):
        read(path)


def test_broken_gzip_names_the_file(tmp_path: Path, plain: Path) -> None:
    packed = bytearray(gzip.compress(plain.read_bytes()))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(40)
    path = tmp_path / "bad.json.gz"
    path.write_bytes(bytes(packed))
    with pytest.raises(DamagedTrace, match=r"bad\.json\.gz: broken gzip"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", 'no "traceEvents"'),
        (b'{"hello": 1}', 'no "traceEvents"'),
        (b'{"schemaVersion": oops, "traceEvents": []}', "the header is not JSON"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "no kernel in 0 events"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message):
        read(path)


def test_progress_counts_every_byte(plain: Path) -> None:
    seen: list[int] = []
    collect(plain, SpanRules.load(), seen.append)
    assert sum(seen) == plain.stat().st_size
