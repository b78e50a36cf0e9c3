"""Words to the service manager that started this process: ready, what it does, stopping.

Source: sd_notify(3), the datagram protocol behind NOTIFY_SOCKET.
"""

import os
import socket

from k25serve.server.config.shown import one_line
from k25serve.server.errors import ConfigError


def notify(*words: str) -> None:
    """Send assignments such as `READY=1`; nothing where no service manager listens. Raises ConfigError if none can."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # A leading @ stands for the NUL byte of an abstract address.
            sender.sendto("\n".join(words).encode(), f"\0{address[1:]}" if address[0] == "@" else address)
    except OSError as error:
        raise ConfigError(f"NOTIFY_SOCKET {address}: {error.strerror}; unset it where no service manager is") from None


def status(text: str) -> None:
    """Set the line that `systemctl status` shows."""
    notify(f"STATUS={one_line(text)}")
