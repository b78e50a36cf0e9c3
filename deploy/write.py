"""Unit files onto disk: each replaced in one step, so that systemd never reads a half."""

from collections.abc import Mapping
from pathlib import Path

from k25serve.server.config.shown import shown
from k25serve.server.errors import ConfigError


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write each text to `folder`/path. Raises OSError, with the file's name, where it cannot.

    Raises ConfigError for a folder that no line can name: callers list what was written, units and settings quote it.
    """
    if not str(folder).isprintable():
        raise ConfigError(f"folder {shown(str(folder))}: holds a character that cannot be printed; give another folder")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, encoding="utf-8")
        part.chmod(0o644)
        part.replace(path)
