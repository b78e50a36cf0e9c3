"""No gateway without keys where strangers reach it."""

import ipaddress
from pathlib import Path

from k25serve.server.errors import ConfigError


def check_exposure(host: str, keys_file: Path | None, *, allow_unauthenticated: bool) -> None:
    """Transport security isn't the gateway's job: beyond a trusted network put a TLS proxy before it.

    Raises:
        ConfigError: `host` is more than loopback, there are no keys, and nobody said that this is wanted.
    """
    if keys_file is None and not allow_unauthenticated and not _is_loopback(host):
        raise ConfigError(
            f"gateway.host is {host} and there are no API keys, so everyone who reaches it would be served: set "
            "gateway.keys_file, or gateway.allow_unauthenticated=true if only trusted clients reach it"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
