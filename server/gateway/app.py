"""The gateway as an ASGI app."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from k25serve.server.gateway import health, v1
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.openapi import openapi_paths
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.runtime import Runtime, open_runtime
from k25serve.server.gateway.settings import GatewaySettings


def create_app(
    settings: GatewaySettings,
    readiness: Readiness | None = None,
    *,
    registry: CollectorRegistry | None = None,
    drain: Drain | None = None,
) -> ASGIApp:
    """An app whose state begins and ends with its lifespan, which the server has to run.

    `readiness`: of the first arm, given by whoever supervises its engine in this process; every other arm is probed.
    `drain`: begun by whoever is about to stop the server.
    `registry`: where the gateway's metrics go, to serve others beside them; a fresh one by default.

    /v1 is plain ASGI, since a framework's wrappers hide the client's disconnect and cost time on every chunk. FastAPI
    serves the rest.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Runtime]]:
        own = CollectorRegistry() if registry is None else registry
        async with open_runtime(settings, readiness, own, drain or Drain()) as runtime:
            yield {"runtime": runtime}

    rest = FastAPI(title="k25serve gateway", lifespan=lifespan, docs_url=None, redoc_url=None)
    rest.include_router(health.router)
    document = rest.openapi()
    document["paths"] |= openapi_paths(settings)
    rest.openapi_schema = document

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and v1.is_v1(scope["path"]):
            await v1.handle(scope, receive, send)
        else:
            await rest(scope, receive, send)

    return app
