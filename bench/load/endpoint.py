"""A base URL as users write it -> the URLs that are posted to. Pure."""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from k25serve.server.errors import UserError

CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server. `root` is its URL without /v1, any prefix kept; never with a trailing slash."""

    root: str

    @property
    def chat(self) -> str:
        return f"{self.root}/v1{CHAT}"

    @property
    def models(self) -> str:
        return f"{self.root}/v1/models"

    @property
    def is_local(self) -> bool:
        """On this machine, as far as the name says: what is measured here (energy) is then the server's."""
        return urlsplit(self.root).hostname in ("localhost", "127.0.0.1", "::1")


def resolve(url: str, option: str = "--url") -> Endpoint:
    """Accepts the server's root, its /v1 and the full chat URL, each with or without a prefix and a trailing slash.

    Only a last path segment that is exactly `v1` is the API's version: /v10 is a prefix.
    Raises UserError for anything else, naming `option`.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UserError(f"{option} {url}: {error}; pass e.g. http://127.0.0.1:8000") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(f"{option} {url}: no http:// or https:// address; pass e.g. http://127.0.0.1:8000")
    if parts.query or parts.fragment or parts.username:
        raise UserError(f"{option} {url}: has a query, fragment or user name; pass the address alone")
    path = parts.path.rstrip("/").removesuffix(f"/v1{CHAT}").rstrip("/")
    if path == parts.path.rstrip("/"):
        path = path.removesuffix("/v1")
    if path.endswith((CHAT, "/completions", "/responses", "/v1")):
        raise UserError(f"{option} {url}: not a server's base address; pass what comes before /v1")
    return Endpoint(urlunsplit((parts.scheme, parts.netloc, path, "", "")))
