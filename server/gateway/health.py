"""The paths that operators and Prometheus ask."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client.exposition import choose_encoder

from k25serve.server.gateway.runtime import runtime_of

router = APIRouter()


@router.get("/live")
def live() -> dict[str, str]:
    """200 while the process is up, whatever the engine does."""
    return {"status": "live"}


@router.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """200 only while the engine can answer; else 503 with the reason."""
    runtime = runtime_of(request.scope)
    if runtime.readiness.ready:
        return JSONResponse({"status": "ready"})
    return JSONResponse(
        {"status": "not ready", "reason": runtime.readiness.reason},
        status_code=503,
        headers={"retry-after": str(runtime.settings.retry_after_s)},
    )


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this gateway."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(runtime_of(request.scope).metrics.registry), headers={"content-type": content_type})
