"""One generation request's life: body, check, engine, answer; and the client may leave at any moment of it."""

import asyncio
import contextlib
from time import perf_counter

from starlette.types import Receive, Send

from k25serve.server.gateway.disconnect import ClientGoneError, read_body, unless_gone
from k25serve.server.gateway.errors import StoppingError
from k25serve.server.gateway.meter import RequestMeter
from k25serve.server.gateway.plan import Endpoint, make_plan
from k25serve.server.gateway.relay import Relay
from k25serve.server.gateway.runtime import Runtime

_LAST_WORD_S = 1.0


async def generate(runtime: Runtime, endpoint: Endpoint, receive: Receive, send: Send) -> None:
    """Serves one request. Cancelled, which the server does when its drain is over, it tells the client and ends.

    Raises:
        RejectedError: before the engine was asked and before anything was sent.
        ClientGoneError: the client left while it was still sending.
    """
    settings = runtime.settings
    runtime.readiness.require(settings.retry_after_s)
    raw = await read_body(receive, settings.max_body_bytes)
    started = perf_counter()
    plan = make_plan(raw, endpoint, settings)
    meter = RequestMeter(runtime.metrics, plan.target, one_choice=plan.one_choice, started=started)
    relay = Relay(settings, runtime.upstream, plan, meter, send)
    with runtime.running():
        try:
            await unless_gone(relay.run(), receive)
        except ClientGoneError:
            if not meter.finished:
                meter.finish(perf_counter(), "disconnected")
                runtime.upstream.abort(plan.rid)
        except asyncio.CancelledError:
            if not meter.finished:
                runtime.upstream.abort(plan.rid)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_WORD_S):
                        await relay.stop(StoppingError("The gateway is stopping. Send the request again."))
        finally:
            # Reached with open books only by a fault of the gateway's own.
            meter.finish(perf_counter(), "gateway_error")
