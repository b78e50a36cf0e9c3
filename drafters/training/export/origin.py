"""What provenance.json says of the training: settings, inputs by hash, result, versions, machine."""

from pathlib import Path
from typing import Any

from k25serve.drafters.checkpoint.json_file import read_object, read_object_if_there
from k25serve.drafters.training.fit.begun import FILE as SETTINGS
from k25serve.drafters.training.fit.result import FILE as RESULT


def training_record(run: Path) -> dict[str, Any]:
    """Plain values. Raises CheckpointError where fit left no settings or no result."""
    settings = read_object(run / "fit" / SETTINGS)
    return {
        "settings": settings.get("options"),
        "inputs_sha256": settings.get("inputs"),
        "result": read_object(run / "fit" / RESULT),
        "data": read_object_if_there(run / "data" / "report.json"),
    }
