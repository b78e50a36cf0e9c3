"""Where a command is asked to write: found to be impossible before the work, not after it."""

import shutil
import tempfile
from pathlib import Path

from k25serve.server.errors import UserError


def check_folder(option: str, folder: Path | None) -> None:
    """Raise UserError where nothing can be written under `folder`, which need not exist yet. None is no output."""
    if folder is None:
        return
    try:
        there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise UserError(f"{option} {folder}: cannot be written ({error.strerror}); give another folder") from None


def check_file(option: str, path: Path | None) -> None:
    """Raise UserError where `path` cannot be written; its folder must exist. A file that is there is left as it is."""
    if path is None:
        return
    try:
        if path.exists():
            with path.open("ab"):
                return
        with tempfile.TemporaryFile(dir=path.parent):
            return
    except OSError as error:
        raise UserError(f"{option} {path}: cannot be written ({error.strerror}); give another file") from None


def check_space(option: str, folder: Path, size: int) -> None:
    """Raise UserError where the disk of `folder`, which exists, lacks room for `size` bytes."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise UserError(
            f"{option} {folder}: {size / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free; ask for less, or give "
            "another folder"
        )
