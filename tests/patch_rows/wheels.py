"""Small wheels that look like SGLang's."""

import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(folder: Path, version: str, files: Mapping[str, str], name: str = "sglang") -> Path:
    """A wheel with these source files; each `files` key is a path inside it."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
        archive.writestr(
            f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
        )
    return path
