"""Raw text for training: the source of the running interpreter's standard library, in a fixed order.

Every Python installation has it, so no data set is fetched. A file is held out by a hash of its path, so the split is
the same on every interpreter that has the file.
"""

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HELD_OUT_SHARE = 40  # one file in so many
LARGEST_FILE = 400_000  # bytes; the few above are generated tables
SKIPPED_FOLDERS = frozenset(
    {
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "idle_test",
        "__pycache__",
        "encodings",
        "ensurepip",
        "lib-dynload",
    }
)


@dataclass(frozen=True)
class SourceFile:
    """One module: `name` is its path below the library with slashes, `text` its whole source."""

    name: str
    text: str

    @property
    def module(self) -> str:
        """Dotted import name, e.g. `json.decoder` or `json` for `json/__init__.py`."""
        return self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def held_out(self) -> bool:
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % HELD_OUT_SHARE == 0


def read_corpus(limit: int | None = None) -> list[SourceFile]:
    """Read the standard library, sorted by path.

    limit: keep only so many files (for smoke runs), spread evenly over the list, every fifteenth of them held out.
    Raises FileNotFoundError when the interpreter ships no sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.py") if _wanted(p, root))
    files = [SourceFile(name, (root / name).read_text("utf-8", errors="replace")) for name in names]
    if not files:
        raise FileNotFoundError(f"no Python sources under {root}: use an interpreter that ships its standard library")
    if limit is None:
        return files
    held = _spread([f for f in files if f.held_out], limit // 15)
    kept = _spread([f for f in files if not f.held_out], limit - len(held))
    return sorted(held + kept, key=lambda f: f.name)


def corpus_hash(files: list[SourceFile]) -> str:
    """SHA-256 over names and texts, in order."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.text.encode() + b"\0")
    return digest.hexdigest()


def _spread(files: list[SourceFile], count: int) -> list[SourceFile]:
    return [files[i * len(files) // count] for i in range(count)] if count < len(files) else files


def _wanted(path: Path, root: Path) -> bool:
    parts = path.relative_to(root).parts
    if SKIPPED_FOLDERS.intersection(parts[:-1]) or parts[-1].startswith("_sysconfigdata"):
        return False
    return path.stat().st_size <= LARGEST_FILE
