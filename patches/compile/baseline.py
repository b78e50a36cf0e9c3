"""The recorded resources of variants that may spill: alternates of ours and SGLang's own kernels."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from k25serve.patches.compile.assembly import Resources

FILE = Path(__file__).with_name("baseline.json")


@dataclass
class Baseline:
    """Resources by Triton version, architecture and variant. SGLang's variants carry its version in their name."""

    entries: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path = FILE) -> Self:
        """The recorded baseline. Raises FileNotFoundError, json.JSONDecodeError."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def of(self, triton: str, arch: str) -> dict[str, Resources]:
        """Variants recorded for a Triton version and an architecture; empty for one that is not recorded."""
        recorded = self.entries.get(triton, {}).get(arch, {})
        return {name: Resources(**values) for name, values in recorded.items()}

    def record(self, triton: str, arch: str, found: dict[str, Resources]) -> None:
        """Put `found` in place of what is recorded under the same names."""
        recorded = self.entries.setdefault(triton, {}).setdefault(arch, {})
        recorded.update({name: asdict(resources) for name, resources in found.items()})

    def write(self, path: Path = FILE) -> None:
        """Write the file, sorted, so that a difference between two recordings can be read."""
        path.write_text(json.dumps(self.entries, indent=1, sort_keys=True) + "\n", encoding="utf-8")
