"""Records on disk: JSON lines, gzipped, beside the result file that tells their SHA-256."""

import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from k25serve.bench import provenance
from k25serve.bench.load.record import RequestRecord
from k25serve.bench.provenance import Recorder
from k25serve.server.errors import UserError

SUFFIX = ".records.jsonl.gz"


def pack(records: Iterable[RequestRecord]) -> bytes:
    """The same records give the same bytes."""
    lines = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
    return gzip.compress(lines, mtime=0)


def read_records(path: Path) -> list[RequestRecord]:
    """Raises UserError where the file is not one of records."""
    try:
        return [RequestRecord.model_validate_json(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    except (OSError, EOFError, ValidationError) as error:
        raise UserError(f"{path}: not a file of records ({str(error).splitlines()[0]})") from None


def write_result(
    recorder: Recorder, data: dict[str, object], records: Iterable[RequestRecord], folder: Path, notes: str = ""
) -> Path:
    """Write a result file and its records; `data` gains records_file and records_sha256. Returns the result's path."""
    packed = pack(records)
    result = recorder.finish(data, notes=notes)
    name = f"{result.started:%Y%m%dT%H%M%SZ}{SUFFIX}"
    digest = hashlib.sha256(packed).hexdigest()
    result = result.model_copy(update={"data": data | {"records_file": name, "records_sha256": digest}})
    path = provenance.write(result, folder)
    path.with_name(name).write_bytes(packed)
    return path
