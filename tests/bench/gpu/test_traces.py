"""A trimmed trace keeps the middle and the metadata."""

import gzip
import json
from pathlib import Path

from k25serve.bench.gpu.traces import trim


def test_the_middle_and_the_metadata_stay(tmp_path: Path) -> None:
    events = [{"ph": "M", "name": "process_name"}] + [
        {"ph": "X", "name": "k", "ts": at, "dur": 1} for at in range(1001)
    ]
    source, target = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    source.write_bytes(gzip.compress(json.dumps({"traceEvents": events, "deviceProperties": [1]}).encode()))
    assert trim(source, target, 100e-6) == 102
    kept = json.loads(gzip.decompress(target.read_bytes()))
    assert kept["deviceProperties"] == [1]
    assert [event["ts"] for event in kept["traceEvents"] if event["ph"] == "X"] == list(range(450, 551))
