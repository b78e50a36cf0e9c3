"""SGLang's source, read without importing or installing it."""

import importlib.util
import zipfile
import zlib
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Protocol

# Damaged, encrypted, packed in a way that Python does not know, or no text.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeDecodeError)


class TreeError(ValueError):
    """SGLang's source can't be read: one line with the remedy."""


class Tree(Protocol):
    """The source of one SGLang."""

    @property
    def version(self) -> str: ...

    def read(self, path: str) -> str | None:
        """Text of the file at `path` ("sglang/srt/x.py"); None if there is none."""


@dataclass(frozen=True)
class Installed:
    """The SGLang of this environment, in the folder that holds `sglang/`."""

    folder: Path
    version: str

    @classmethod
    def find(cls) -> "Installed":
        """Raises TreeError where SGLang is not installed."""
        try:
            version = installed_version("sglang")
        except PackageNotFoundError:
            raise TreeError("SGLang is not installed; give --sglang-wheel FILE, or install sglang") from None
        spec = importlib.util.find_spec("sglang")
        if spec is None or not spec.submodule_search_locations:
            raise TreeError(f"sglang {version} is listed as installed but its package is not there; install it again")
        return cls(Path(next(iter(spec.submodule_search_locations))).parent, version)

    def read(self, path: str) -> str | None:
        file = self.folder / path
        try:
            return file.read_text(encoding="utf-8") if file.is_file() else None
        except UnicodeDecodeError:
            raise TreeError(f"{file} is damaged: not text; install sglang=={self.version} again") from None


@dataclass(frozen=True)
class Wheel:
    """A wheel file."""

    file: Path
    version: str

    @classmethod
    def open(cls, file: Path) -> "Wheel":
        """Raises TreeError for a file that is no wheel of SGLang."""
        try:
            with zipfile.ZipFile(file) as archive:
                names = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1]
                text = archive.read(names[0]).decode() if names else ""
        except _UNREADABLE:
            raise TreeError(f"{file} is no wheel; download one with: pip download --no-deps sglang==VERSION") from None
        metadata = HeaderParser().parsestr(text)
        if metadata.get("Name") != "sglang" or not metadata.get("Version"):
            found = metadata.get("Name") or "no package"
            raise TreeError(f"{file} holds {found}, not sglang; download it with: pip download --no-deps sglang")
        return cls(file, str(metadata["Version"]))

    def read(self, path: str) -> str | None:
        try:
            with zipfile.ZipFile(self.file) as archive:
                return archive.read(path).decode() if path in archive.namelist() else None
        except _UNREADABLE:
            raise TreeError(
                f"{self.file}: {path} in it is damaged; "
                f"download it again: pip download --no-deps sglang=={self.version}"
            ) from None


def module_of(tree: Tree, target: str) -> tuple[str, str, str] | None:
    """(module, name inside it, source) of a dotted path; None if no module of the tree begins it."""
    parts = target.split(".")
    for end in range(len(parts) - 1, 0, -1):
        stem = "/".join(parts[:end])
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            source = tree.read(path)
            if source is not None:
                return ".".join(parts[:end]), ".".join(parts[end:]), source
    return None
