"""Lets requests in by their key."""

import logging
from collections.abc import Mapping
from pathlib import Path

from k25serve.server.errors import ConfigError
from k25serve.server.gateway.auth.keys import ANYONE, Caller, read_keys
from k25serve.server.gateway.errors import UnauthorizedError

_log = logging.getLogger(__name__)


class Gate:
    """The keys in force. Without a file everyone may pass.

    Raises:
        ConfigError: see read_keys.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._keys = None if path is None else read_keys(path)

    def admit(self, headers: Mapping[str, str]) -> Caller:
        """Who asks, by the bearer token.

        Raises:
            UnauthorizedError: no key, or one that isn't in the file.
        """
        if self._keys is None:
            return ANYONE
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise UnauthorizedError("There is no API key: send the header Authorization: Bearer KEY.", "no_api_key")
        caller = self._keys.caller(key.strip())
        if caller is None:
            raise UnauthorizedError("The API key is not known here: check it, or ask for one.", "invalid_api_key")
        return caller

    def reload(self) -> None:
        """Reads the file again; if it is broken the old keys stay in force."""
        if self._path is None:
            return
        try:
            self._keys = read_keys(self._path)
        except ConfigError as error:
            _log.error("%s The old keys stay in force.", error)
        else:
            _log.info("read %d keys from %s", len(self._keys.entries), self._path)
