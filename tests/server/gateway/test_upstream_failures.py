import asyncio

import orjson
import pytest

DONE = b"data: [DONE]\n\n"


def last_event(raw):
    """The last event's error; every event before it is whole."""
    assert raw.endswith(b"\n\n")
    events = [orjson.loads(frame.removeprefix(b"data: ")) for frame in raw.split(b"\n\n")[:-1]]
    return events[-1]["error"]


async def errors(gateway, kind):
    return await gateway.metric("upstream_errors_total", arm="sglang", type=kind)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_engine_that_accepts_no_connection(open_gateway, stream):
    async with (
        open_gateway(upstream="http://127.0.0.1:9", retry_after_s=7) as gateway,
        gateway.post(stream) as response,
    ):
        assert response.status == 503
        assert response.headers["retry-after"] == "7"
        assert (await response.json())["error"]["code"] == "engine_unreachable"
        assert await errors(gateway, "refused") == 1
        assert await gateway.metric("responses_total", code="503") == 1
        assert await gateway.metric("inflight") == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_dying_before_the_headers(gateway, stream):
    async with gateway.post(stream, sim={"fault": "die_before_headers"}) as response:
        assert response.status == 502
        assert (await response.json())["error"]["code"] == "engine_closed_connection"
    assert await errors(gateway, "closed_before_answer") == 1
    assert await gateway.metric("request_seconds_count", outcome="upstream_error") == 1


@pytest.mark.parametrize("write_bytes", [0, 1])
@pytest.mark.parametrize("fault", ["die_mid_frame", "die_between_frames", "end_early", "no_done"])
async def test_dying_inside_a_stream(gateway, fault, write_bytes):
    sim = {"fault": fault, "fault_after": 3, "accepted": [1, 1], "write_bytes": write_bytes}
    async with gateway.post(sim=sim) as response:
        assert response.status == 200
        raw = await response.read()
    error = last_event(raw)
    assert error["code"] == "engine_closed_connection"
    assert error.keys() == {"message", "type", "param", "code"}
    assert DONE not in raw
    assert raw.count(b'"content":') >= 2
    assert await errors(gateway, "closed_mid_answer") == 1
    assert await gateway.metric("inflight") == 0


async def test_dying_after_the_last_frame_is_no_failure(gateway):
    async with gateway.post(sim={"fault": "die_between_frames", "fault_after": 100, "accepted": [1]}) as response:
        assert (await response.read()).endswith(DONE)
    assert await gateway.metric("upstream_errors_total") is None
    assert await gateway.metric("request_seconds_count", outcome="ok") == 1


async def test_dying_inside_a_whole_answer(gateway):
    async with gateway.post(stream=False, sim={"fault": "die_mid_frame"}) as response:
        assert response.status == 502
    assert await errors(gateway, "closed_mid_answer") == 1


async def test_the_engines_own_error_frame_passes_unchanged(gateway):
    async with gateway.post(sim={"fault": "error_frame", "fault_after": 2}) as response:
        raw = await response.read()
    assert b'{"error":{"object":"error","message":"Generation aborted."' in raw
    assert raw.endswith(DONE)
    assert await errors(gateway, "error_frame") == 1
    assert await gateway.metric("request_seconds_count", outcome="upstream_error") == 1


@pytest.mark.parametrize(
    ("fault", "status", "code", "outcome"),
    [
        ("queue_full", 503, "SERVICE_UNAVAILABLE", "upstream_error"),
        ("plain_500", 500, None, "upstream_error"),
        ("bad_request", 400, "BadRequestError", "client_error"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_status_passes_in_openais_shape(gateway, fault, status, code, outcome, stream):
    async with gateway.post(stream, sim={"fault": fault}) as response:
        assert response.status == status
        assert response.headers["content-type"] == "application/json"
        assert ("retry-after" in response.headers) == (status == 503)
        error = (await response.json())["error"]
    assert error["code"] == code
    assert error["message"]
    assert await gateway.metric("request_seconds_count", outcome=outcome) == 1
    assert await errors(gateway, f"http_{status}") == (1 if status >= 500 else None)


async def test_no_token_in_time(open_gateway, eventually):
    async with open_gateway(first_token_timeout_s=0.2) as gateway:
        async with gateway.post(sim={"header_delay_s": 30.0}) as response:
            assert response.status == 504
            assert response.headers["x-should-retry"] == "false"
            assert "0.2 s" in (await response.json())["error"]["message"]
        assert await errors(gateway, "first_token_timeout") == 1
        await eventually(lambda: gateway.engine.record.aborts and gateway.engine.record.cancellations)
        assert gateway.engine.record.aborts[0] == {"rid": gateway.engine.record.calls[0].body["rid"]}


async def test_headers_without_a_token_do_not_stop_the_clock(open_gateway):
    async with open_gateway(first_token_timeout_s=0.2, idle_timeout_s=30) as gateway:
        async with gateway.post(sim={"fault": "stall", "fault_after": 1}) as response:
            assert response.status == 200
            assert last_event(await response.read())["code"] == "engine_timeout"
        assert await errors(gateway, "first_token_timeout") == 1


async def test_silence_after_tokens(open_gateway, eventually):
    async with open_gateway(idle_timeout_s=0.2) as gateway:
        async with gateway.post(sim={"fault": "stall", "fault_after": 3, "accepted": [1, 1]}) as response:
            assert "silent for 0.2 s" in last_event(await response.read())["message"]
        assert await errors(gateway, "idle_timeout") == 1
        await eventually(lambda: gateway.engine.record.aborts and gateway.engine.record.cancellations)


@pytest.mark.parametrize("sim", [{"header_delay_s": 30.0}, {"fault": "stall"}])
async def test_no_whole_answer_in_time(open_gateway, sim):
    async with open_gateway(answer_timeout_s=0.2) as gateway:
        async with gateway.post(stream=False, sim=sim) as response:
            assert response.status == 504
        assert await errors(gateway, "answer_timeout") == 1


async def test_a_slow_stream_outlives_every_limit(open_gateway):
    limits = {"first_token_timeout_s": 0.5, "idle_timeout_s": 0.5, "answer_timeout_s": 0.5}
    sim = {"accepted": [0] * 9, "step_s": 0.1}
    async with open_gateway(**limits) as gateway, gateway.post(sim=sim) as response:
        assert (await response.read()).endswith(DONE)


async def test_a_client_that_reads_slowly_is_no_silence_of_the_engine(open_gateway):
    async with open_gateway(idle_timeout_s=0.3) as gateway:
        sim = {"pieces": ["x" * 2**20], "accepted": [0] * 24}
        async with gateway.post(sim=sim, max_tokens=25) as response:
            await response.content.readany()
            await asyncio.sleep(0.8)
            raw = await response.read()
        assert raw.endswith(DONE)
        assert await errors(gateway, "idle_timeout") is None


async def test_the_next_request_works_after_each_failure(gateway):
    for fault in ("die_before_headers", "die_mid_frame", "plain_500", "end_early"):
        await (await gateway.post(sim={"fault": fault})).read()
        async with gateway.post() as response:
            assert (await response.read()).endswith(DONE)
