"""Events and files that hold what no profiler writes: told with the file, or counted; never taken as zero."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import DamagedTrace, RankError, TraceError
from k25serve.bench.trace.ranks import trace_files
from k25serve.bench.trace.synthetic import kernel, launch, span

REMOVE = object()
ROWS = list(synthetic.decode_steps(2, 2))


def trace(folder: Path, category: str, change: dict[str, Any], *, compact: bool = False, name: str = "a.json") -> Path:
    """A decode step in which the first event of `category` was changed."""
    path = synthetic.write(folder / name, synthetic.decode_steps(2, 3))
    content = orjson.loads(path.read_bytes())
    event = next(one for one in content["traceEvents"] if one["cat"] == category)
    for key, value in change.items():
        if value is REMOVE:
            del event[key]
        else:
            event[key] = value
    if compact:
        path.write_bytes(orjson.dumps(content))
    else:
        events = b",\n".join(b"  {\n    " + orjson.dumps(one)[1:-1] + b"\n  }" for one in content["traceEvents"])
        path.write_bytes(synthetic.header() + events.replace(b'"ph":"', b'"ph": "') + b'\n  ],"traceName": "x"\n}\n')
    return path


@pytest.mark.parametrize("compact", [False, True], ids=["kineto", "compact"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"ts": REMOVE}, "has no ts"),
        ({"dur": REMOVE}, "has no dur"),
        ({"name": REMOVE}, "has no name"),
        ({"ph": REMOVE}, "has no ph"),
        ({"ts": "soon"}, "has a field of the wrong kind (could not convert string to float: 'soon')"),
        ({"ts": None}, "has a ts that is no time"),
        ({"ts": 1e300}, "has a ts that is no time"),
        ({"dur": None}, "has a dur that is no time"),
        ({"dur": "long"}, "has a field of the wrong kind (could not convert"),
        ({"dur": -3.5}, "has a negative dur, -3.5"),
        ({"dur": 1e300}, "has a dur that is no time"),
        ({"dur": [1]}, "has a dur that is no time"),
        ({"name": 5}, "has a name that is no text: 5"),
        ({"args": [1]}, "has a field of the wrong kind"),
        ({"args": {"correlation": "first"}}, "has a field of the wrong kind"),
        ({"args": {"correlation": []}}, "has a field of the wrong kind (correlation is no number)"),
        ({"args": {"correlation": [1, 2]}}, "has a field of the wrong kind (correlation is no number)"),
        ({"args": {"Collective name": 5}}, "has a name that is no text: 5"),
        ({"args": {"correlation": 10**19}}, "has a field of the wrong kind"),
        ({"args": {"Collective name": "allreduce", "In msg nelems": "many"}}, "has a field of the wrong kind"),
        ({"ph": "B"}, "is in two parts (ph B and E)"),
    ],
    ids=str,
)
def test_a_device_event_that_cannot_be_measured_is_an_error(
    tmp_path: Path, change: dict[str, Any], told: str, compact: bool
) -> None:
    path = trace(tmp_path, "kernel", change, compact=compact)
    with pytest.raises(DamagedTrace) as caught:
        analyse([path])
    assert str(caught.value).startswith(f"{path}: a device event {told}")
    assert "so no share can be told; error at byte " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"ts": REMOVE}, {"ts": "soon"}, {"ts": None}, {"dur": -1}, {"dur": REMOVE}, {"name": REMOVE}, {"name": 5}],
    ids=str,
)
@pytest.mark.parametrize("category", ["user_annotation", "cuda_runtime"])
def test_a_host_event_that_cannot_be_read_is_counted_and_told(
    tmp_path: Path, category: str, change: dict[str, Any]
) -> None:
    report = analyse([trace(tmp_path, category, change)])
    assert report.ranks[0].skipped_events == 1
    assert "rank-0: 1 events could not be read and were skipped" in report.warnings


def test_two_events_wrong_in_two_ways(tmp_path: Path) -> None:
    """One that cannot be a key hides no other."""
    path = synthetic.write(tmp_path / "a.json", ROWS)
    content = orjson.loads(path.read_bytes())
    kernels = [one for one in content["traceEvents"] if one["cat"] == "kernel"]
    kernels[1]["args"]["Collective name"] = None
    kernels[2]["name"] = {}
    path.write_bytes(orjson.dumps(content))
    with pytest.raises(DamagedTrace, match="has a name that is no text: None"):
        analyse([path])


def test_times_in_large_numbers_that_are_no_digits(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "a.json", [kernel("_fwd_kernel", 7.0, 1.0)])
    path.write_bytes(path.read_bytes().replace(b'"ts": 7.000', b'"ts": 1.8e15'))
    with pytest.raises(DamagedTrace, match="a device event has a ts that is no time"):
        analyse([path])


def test_a_null_args_and_a_large_thread_are_no_fault(tmp_path: Path) -> None:
    report = analyse([trace(tmp_path, "kernel", {"args": None, "tid": 140_234_567_890_123})])
    assert report.ranks[0].skipped_events == 0


def test_events_of_unknown_categories_are_counted_and_told(tmp_path: Path) -> None:
    rows = [*synthetic.decode_steps(1, 1), synthetic.Row("xpu_kernel", "gemm", 5.0, 4.0)]
    report = analyse([synthetic.write(tmp_path / "a.json", rows)])
    assert report.ranks[0].unknown_events == {"xpu_kernel": 1}
    assert any("not known were left out (1 of xpu_kernel)" in line for line in report.warnings)


@pytest.mark.parametrize("garbage", [b"1, 2,", b"null,", b'"kernel",', b"[1],"], ids=str)
def test_what_is_no_event_is_an_error_in_a_compact_file(tmp_path: Path, garbage: bytes) -> None:
    path = synthetic.write(tmp_path / "a.json", synthetic.decode_steps(1, 1))
    text = orjson.dumps(orjson.loads(path.read_bytes()))
    path.write_bytes(text.replace(b'"traceEvents":[{', b'"traceEvents":[' + garbage + b"{"))
    with pytest.raises(TraceError, match=r"a\.json: "):
        analyse([path])


def test_garbage_for_an_event_is_counted_in_kinetos_layout(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "a.json", synthetic.decode_steps(1, 1))
    path.write_bytes(path.read_bytes().replace(b"\n  },\n  {\n", b"\n  },\n  {\n\x00\xff}{\n  },\n  {\n", 1))
    assert analyse([path]).ranks[0].skipped_events == 1


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"rank": "0", "world_size": 1}, "distributedInfo.rank is '0'"),
        ({"rank": -1, "world_size": 1}, "distributedInfo.rank is -1"),
        ({"rank": 0, "world_size": 10**12}, "distributedInfo.world_size is 1000000000000"),
        ({"rank": 0, "world_size": True}, "distributedInfo.world_size is True"),
    ],
    ids=str,
)
def test_ranks_that_are_none_are_refused(tmp_path: Path, info: dict[str, Any], told: str) -> None:
    path = synthetic.write(tmp_path / "a.json", synthetic.decode_steps(1, 1))
    path.write_bytes(orjson.dumps({"distributedInfo": info, **orjson.loads(path.read_bytes())}))
    with pytest.raises(RankError, match=told):
        analyse([path])


def test_a_rank_out_of_all_range_in_a_name_is_refused(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "9-TP-0.trace.json", synthetic.decode_steps(1, 1))
    synthetic.write(tmp_path / "9-TP-99999999999.trace.json", synthetic.decode_steps(1, 1))
    with pytest.raises(RankError, match="TP-99999999999 is no rank"):
        analyse([tmp_path])


@pytest.mark.parametrize("properties", [5, {}, [5], [{}], "x"], ids=str)
def test_device_properties_of_another_form(tmp_path: Path, properties: object) -> None:
    path = synthetic.write(tmp_path / "a.json", synthetic.decode_steps(1, 1))
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "deviceProperties": properties}))
    assert analyse([path]).device == "gpu"


def test_a_folder_named_like_a_trace_is_none(tmp_path: Path) -> None:
    (tmp_path / "1-TP-7.trace.json").mkdir()
    path = synthetic.write(tmp_path / "1-TP-0.trace.json", synthetic.decode_steps(1, 1))
    assert trace_files([tmp_path]) == [path]


def test_a_dangling_link_or_a_pipe_is_told_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link/1-TP-0.trace.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/1-TP-0.trace.json")
    for folder in ("link", "pipe"):
        with pytest.raises(TraceError, match=r"1-TP-0\.trace\.json: named like a trace, but no file"):
            analyse([tmp_path / folder])


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = synthetic.write(tmp_path / "a.json", synthetic.decode_steps(1, 1))

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceError, match=r"a\.json: cannot be read \(Permission denied\)"):
        analyse([path])


def test_kernels_without_time_give_no_share(tmp_path: Path) -> None:
    for rank in range(2):
        rows = [row._replace(dur=0.0) for row in synthetic.decode_steps(2, 2)]
        synthetic.write(tmp_path / f"9-TP-{rank}.trace.json", rows)
    report = analyse([tmp_path])
    assert report.headline.share_of_kernel_sum == 0
    assert report.wait is not None
    assert report.wait.share_of_all_reduce == 0


def test_a_rank_without_the_headlines_steps_is_told(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "9-TP-0.trace.json", synthetic.decode_steps(2, 2))
    rows = [row._replace(name="step[EXTEND bs=1]") if row.category == "user_annotation" else row for row in ROWS]
    synthetic.write(tmp_path / "9-TP-1.trace.json", rows)
    assert "TP-1: no decode step in it, so it is not in the comparison" in analyse([tmp_path]).warnings


def test_a_decode_span_that_matches_nothing_is_told_with_what_there_is(tmp_path: Path) -> None:
    rows = [span("my_step", 0, 10), launch("cudaGraphLaunch", 1, 1), kernel("_fwd_kernel", 5, 9, correlation=1)]
    path = synthetic.write(tmp_path / "a.json", rows)
    assert analyse([path], decode_span="^my_").mode == "decode"
    with pytest.raises(TraceError, match=r"--decode-span '\^yours': matches no range in .*; ranges there: my_step"):
        analyse([path], decode_span="^yours")
    with pytest.raises(TraceError, match="not a regular expression"):
        analyse([path], decode_span="(")
