"""What an image part may point to. Pure.

An engine fetches what it is given: web addresses, and paths of its own disk too (SGLang's `load_image`, 0.5.23). So
only data URIs pass, and web addresses of hosts that the profile lists.
"""

from typing import Any
from urllib.parse import urlsplit

from k25serve.server.gateway.errors import InvalidRequestError
from k25serve.server.gateway.fields import shown, wrong
from k25serve.server.gateway.settings import GatewaySettings

_MEDIA = ("image_url", "video_url", "audio_url")


def check_media(body: dict[str, Any], settings: GatewaySettings) -> None:
    """Raises InvalidRequestError for the first part, in checked messages, that the engine must not load."""
    for i, message in enumerate(body["messages"]):
        content = message.get("content")
        if not isinstance(content, list):
            continue
        for j, part in enumerate(content):
            kind = part["type"]
            if kind in _MEDIA:
                at = f"messages[{i}].content[{j}]"
                if kind == "image_url" and "image" not in settings.modalities:
                    raise wrong(f"{at}.type", kind, "text only: this model takes no images")
                _check_url(part[kind]["url"], f"{at}.{kind}.url", settings)


def _check_url(url: str, at: str, settings: GatewaySettings) -> None:
    if url[:5].lower() == "data:":
        # Four characters of base64 hold three bytes.
        size = (len(url) - url.find(",") - 1) * 3 // 4
        if size > settings.max_image_bytes:
            raise InvalidRequestError(
                f"{at} holds about {size} bytes: send at most {settings.max_image_bytes}.", at, code="image_too_large"
            )
        return
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise wrong(at, url, "a data URI") from None
    if parts.scheme not in ("http", "https"):
        raise wrong(at, url, "a data URI, such as data:image/png;base64,...")
    # A user name, or a backslash, makes parsers disagree about which part is the host.
    if host not in settings.remote_media_hosts or parts.username is not None or "\\" in url:
        allowed = ", ".join(settings.remote_media_hosts)
        wanted = f"a data URI, or an address at {allowed}" if allowed else "the image itself, as a data URI"
        raise InvalidRequestError(
            f"{at} is {shown(url)}, which is not fetched from here: send {wanted}.", at, code="remote_media_refused"
        )
