"""A raw measurement, made where only torch and triton are, becomes a result file here."""

import json
from pathlib import Path

from k25serve.bench import provenance


def finish(raw: Path, folder: Path, notes: str = "") -> Path:
    """Write the result file of a raw measurement under `folder`; return its path. Git state is this checkout's.

    Raises FileExistsError where it was finished before, pydantic.ValidationError where `raw` lacks a field.
    """
    found = json.loads(raw.read_text(encoding="utf-8"))
    here = provenance.Recorder("kernels", command=[found["command"]]).finish(found["data"], notes=notes)
    measured = {name: found[name] for name in ("started", "seconds", "versions", "inputs", "machine")}
    return provenance.write(provenance.Result(**{**here.model_dump(by_alias=True), **measured}), folder)
