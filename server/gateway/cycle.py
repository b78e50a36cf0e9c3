"""uvicorn's own object for one request, for the few places where ASGI's messages cost too much.

Behind another server, or where a wrapper doesn't name what it wraps, there is none, and ASGI is all there is.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def cycle_of(channel: Any) -> RequestResponseCycle | None:
    """The cycle behind an app's `receive` or `send`."""
    cycle = getattr(getattr(channel, "__wrapped__", channel), "__self__", None)
    return cycle if isinstance(cycle, RequestResponseCycle) else None
