"""Everything under /v1: which paths there are, and what becomes of an error."""

from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from k25serve.server.gateway.cors import preflight_headers, with_cors
from k25serve.server.gateway.disconnect import ClientGoneError
from k25serve.server.gateway.errors import BodyEncodingError, RejectedError, UnknownPathError, WrongMethodError
from k25serve.server.gateway.fields import shown
from k25serve.server.gateway.lane import join_head
from k25serve.server.gateway.meter import LEFT_UNANSWERED
from k25serve.server.gateway.metrics import REJECTED, Metrics
from k25serve.server.gateway.models import model_card, model_list
from k25serve.server.gateway.plan import ENDPOINTS
from k25serve.server.gateway.proxy import generate
from k25serve.server.gateway.reply import send_error, send_json, send_whole
from k25serve.server.gateway.runtime import Runtime, runtime_of

_GENERATION = {endpoint.path: endpoint for endpoint in ENDPOINTS}
_MODELS = "/v1/models"


def is_v1(path: str) -> bool:
    return path == "/v1" or path.startswith("/v1/")


async def handle(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves one request under /v1. Only the paths listed here reach the engine, whose other paths can stop it."""
    runtime = runtime_of(scope)
    join_head(send)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    origins = runtime.settings.cors_origins
    if origins and "origin" in headers:
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await send_whole(send, 204, b"", preflight_headers(headers, origins))
            return
        send = with_cors(send, headers, origins)
    try:
        await _route(runtime, scope, headers, receive, send)
    except RejectedError as error:
        _count(runtime.metrics, error.status)
        runtime.metrics.rejected.labels(error.kind).inc()
        await send_error(send, error)
    except ClientGoneError:
        _count(runtime.metrics, LEFT_UNANSWERED)
        runtime.metrics.disconnects.labels(*REJECTED, "upload").inc()


async def _route(runtime: Runtime, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
    path, method = scope["path"], scope["method"]
    caller = runtime.gate.admit(headers)
    if path in _GENERATION:
        _require(method, "POST", path)
        _refuse_compressed(headers)
        await generate(runtime, _GENERATION[path], caller, headers, receive, send)
    elif path == _MODELS or path.startswith(_MODELS + "/"):
        _require(method, "GET", _MODELS)
        name = path.removeprefix(_MODELS).removeprefix("/")
        settings, created = runtime.settings, runtime.created
        document = model_card(name, settings, created) if name else model_list(settings, created)
        _count(runtime.metrics, 200)
        await send_json(send, 200, document)
    else:
        served = ", ".join([*_GENERATION, _MODELS])
        raise UnknownPathError(
            f"There is no {method} {shown(path)} here: the base URL ends in /v1 once, then {served}."
        )


def _require(method: str, allowed: str, path: str) -> None:
    if method != allowed:
        raise WrongMethodError(f"{path} does not take {method}: send {allowed}.", allowed)


def _refuse_compressed(headers: Mapping[str, str]) -> None:
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise BodyEncodingError(f"Content-Encoding is {shown(encoding)}: send the body uncompressed.")


def _count(metrics: Metrics, code: int) -> None:
    children = metrics.bound(REJECTED)
    children.requests.add(1)
    children.responses(code).add(1)
