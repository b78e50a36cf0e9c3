"""A new API key, and its line for the keys file."""

import hashlib
import secrets

from k25serve.server.errors import ConfigError
from k25serve.server.gateway.auth.keys import NAME


def new_key(name: str, *, staff: bool) -> tuple[str, str]:
    """The key, which is kept nowhere, and its line. Raises ConfigError for a name that no line may hold."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"name {name!r}: use 1 to 64 letters, digits, _ . @ or -")
    key = f"sk-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    return key, f"{name} sha256:{digest}{' staff' if staff else ''}"
