"""The keys file: one key a line, as a hash.

    # name   hash of the key                what it may do
    alice    sha256:9f86d081884c7d65...     max_concurrency=8
    ops      sha256:60303ae22b998861...     staff

`k25serve key NAME` makes a key and its line. Keys are 256 random bits, so one round of
SHA-256 is enough: there is no dictionary to try. `staff` may choose the arm by header.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

from k25serve.server.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_LINE = re.compile(rf"(?P<name>{NAME.pattern})\s+sha256:(?P<digest>[0-9a-f]{{64}})(?P<rights>(?:\s+\S+)*)")
_LIMIT = re.compile(r"max_concurrency=([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. The name never becomes a metric label."""

    name: str
    staff: bool = False
    max_concurrency: int | None = None


ANYONE = Caller("anyone", staff=True)
"""The caller where there are no keys: whoever reaches the socket is trusted with all of it."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The hashes of all keys, each with its caller."""

    entries: tuple[tuple[bytes, Caller], ...]

    def caller(self, key: str) -> Caller | None:
        """Whose key this is. Every entry is compared, in constant time, whichever matches."""
        digest = hashlib.sha256(key.encode()).digest()
        found = None
        for stored, caller in self.entries:
            if hmac.compare_digest(stored, digest):
                found = caller
        return found


def read_keys(path: Path) -> Keys:
    """Reads a keys file.

    Raises:
        ConfigError: it can't be read, a line has another form, or a name or key comes twice.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gateway.keys_file {path} can't be read: {error}. Give a readable text file.") from error
    entries: dict[bytes, Caller] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        digest, caller = _entry(text, f"gateway.keys_file {path}, line {number}")
        if digest in entries or caller.name in {known.name for known in entries.values()}:
            raise ConfigError(f"gateway.keys_file {path}, line {number}: the name or the key is there already.")
        entries[digest] = caller
    if not entries:
        raise ConfigError(f"gateway.keys_file {path} holds no key: add one, or leave keys_file out.")
    return Keys(tuple(entries.items()))


def _entry(text: str, at: str) -> tuple[bytes, Caller]:
    match = _LINE.fullmatch(text)
    if match is None:
        # The line itself isn't shown: it may hold a key by mistake.
        raise ConfigError(f"{at}: write NAME sha256:HASH, 64 hex digits, then `staff` or max_concurrency=N.")
    staff, limit = False, None
    for right in match["rights"].split():
        bound = _LIMIT.fullmatch(right)
        if bound is not None:
            limit = int(bound[1])
        elif right == "staff":
            staff = True
        else:
            raise ConfigError(f"{at}: {right!r} is no right: write `staff` or max_concurrency=N.")
    return bytes.fromhex(match["digest"]), Caller(match["name"], staff, limit)
