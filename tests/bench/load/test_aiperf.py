"""AIPerf 0.13.0 wrote the fixture, asked by `bench load --runner aiperf` what `_request` makes."""

import stat
from pathlib import Path

import orjson
import pytest
from load_records.make import CELL, asked

from k25serve.bench.load import metrics
from k25serve.bench.load.aiperf import find_aiperf, read_raw
from k25serve.bench.load.answer import to_record
from k25serve.bench.load.prompts import Request
from k25serve.server.errors import UserError

RAW = Path(__file__).parent / "fixtures" / "aiperf_raw.jsonl"


def _request(seed: int) -> Request:
    body = {
        "model": "sim", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 20, "seed": seed,
        "ignore_eos": True, "return_spec_tokens_details": True,
        "messages": [{"role": "user", "content": f"Note {seed}. hi"}],
    }  # fmt: skip
    return Request(asked(seed, max_tokens=20), orjson.dumps(body))


def test_its_raw_export_becomes_the_same_records() -> None:
    lines = [orjson.loads(line) for line in RAW.read_bytes().splitlines()]
    requests = [_request(line["payload"]["seed"]) for line in reversed(lines)]
    for line, reply, request in zip(reversed(lines), read_raw(RAW, requests), requests, strict=True):
        record = to_record(reply, request.asked, CELL, reply.sent)
        assert record.error == ""
        assert record.tokens is not None
        assert record.tokens.completion == 20
        assert record.tokens.source == "usage"
        ttft, tpot = metrics.ttft(record), metrics.tpot(record)
        # The engine's first event is a role; the first text came with the same read.
        assert ttft == pytest.approx((line["responses"][1]["perf_ns"] - line["start_perf_ns"]) / 1e9, abs=1e-6)
        assert tpot is not None
        assert ttft is not None
        assert ttft + 19 * tpot == pytest.approx(record.ended_s, rel=0.05)
        assert metrics.accept_length(record) is not None


def test_a_request_that_it_lost_is_a_failure() -> None:
    [reply] = read_raw(RAW, [_request(999)])
    assert "no record" in to_record(reply, asked(999), CELL, reply.sent).error


@pytest.mark.parametrize("content", ["", "not json\n", '{"payload": {}}\n', None])
def test_another_file_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "raw.jsonl"
    if content is not None:
        path.write_text(content)
    if content == "":
        assert "no record" in read_raw(path, [_request(1)])[0].error
        return
    with pytest.raises(UserError, match=r"not a raw export of AIPerf 0\.13\.0"):
        read_raw(path, [_request(1)])


def test_a_missing_program_is_told_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"aiperf is no program here; uv venv .* aiperf==0\.13\.0"):
        find_aiperf(None)
    other = tmp_path / "aiperf"
    other.write_text("#!/bin/sh\necho 0.9.1\n")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(UserError, match=r"version 0\.9\.1"):
        find_aiperf(None)
    other.write_text("#!/bin/sh\necho 0.13.0\n")
    assert find_aiperf(other) == other
