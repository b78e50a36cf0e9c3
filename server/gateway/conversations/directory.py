"""The log's folder, looked at before anything is started."""

import fcntl
import tempfile
from pathlib import Path

from k25serve.server.errors import ConfigError

_KEY = "gateway.conversation_log.directory"
_OTHERS = 0o077


def prepare_directory(folder: Path) -> None:
    """Makes the folder, and makes sure that files can be made and locked there.

    Raises:
        ConfigError: it can't be made or written in, or other accounts may look into it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode & 0o777
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{_KEY} {str(folder)!r}: can't be written in ({reason}); name a folder of the gateway's account"
        ) from None
    if mode & _OTHERS:
        raise ConfigError(
            f"{_KEY} {str(folder)!r}: other accounts may look into it (mode {mode:o}); chmod 700 it, or name another"
        )
