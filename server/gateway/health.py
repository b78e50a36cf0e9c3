"""The paths that operators and Prometheus ask."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client.exposition import choose_encoder

from k25serve.server.gateway.runtime import runtime_of
from k25serve.server.gateway.workers.shared_metrics import shared_registry

router = APIRouter()


@router.get("/live")
def live() -> dict[str, str]:
    """200 while the process is up, whatever the engine does."""
    return {"status": "live"}


@router.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """200 only while an engine can answer and the gateway isn't about to stop; else 503 with the reason."""
    runtime = runtime_of(request.scope)
    reason = "the gateway is stopping" if runtime.drain.active else runtime.not_ready_reason
    if reason is None:
        return JSONResponse({"status": "ready"})
    return JSONResponse(
        {"status": "not ready", "reason": reason},
        status_code=503,
        headers={"retry-after": str(runtime.settings.retry_after_s)},
    )


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this gateway, of all its workers."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = shared_registry() or runtime_of(request.scope).metrics.registry
    return Response(encode(registry), headers={"content-type": content_type})
