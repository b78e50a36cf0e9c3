import asyncio
import logging

import orjson
import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from k25serve.server.gateway.cors import with_cors
from k25serve.server.gateway.lane import Lane, join_head

CHUNKED = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
WHOLE = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}


class Transport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.did = []

    def write(self, data):
        self.did.append(data)

    def close(self):
        self.did.append("close")


def new_cycle(transport, keep_alive=True):
    return RequestResponseCycle(
        scope={"type": "http", "method": "POST", "http_version": "1.1"},
        transport=transport,
        flow=FlowControl(transport),
        logger=logging.getLogger(),
        access_logger=logging.getLogger(),
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


def body(data, more=False):
    return {"type": "http.response.body", "body": data, "more_body": more}


async def told(messages, keep_alive=True):
    """The bytes of an answer as uvicorn writes it by itself."""
    transport = Transport()
    cycle = new_cycle(transport, keep_alive)
    for message in messages:
        await cycle.send(message)
    return b"".join(part for part in transport.did if part != "close")


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("messages", [[WHOLE, body(b"hi")], [CHUNKED, body(b"hi")]])
async def test_head_and_body_leave_in_one_write(messages, keep_alive):
    transport = Transport()
    cycle = new_cycle(transport, keep_alive)
    join_head(cycle.send)
    for message in messages:
        await cycle.send(message)
    assert transport.did == [await told(messages, keep_alive), *([] if keep_alive else ["close"])]


async def test_a_head_does_not_wait_for_a_body():
    transport = Transport()
    cycle = new_cycle(transport)
    join_head(cycle.send)
    await cycle.send(CHUNKED)
    await asyncio.sleep(0)
    assert transport.did == [await told([CHUNKED])]
    await cycle.send(body(b"hi", more=True))
    assert transport.did[1:] == [b"2\r\nhi\r\n"]


async def test_a_head_before_a_hang_up_is_not_lost():
    transport = Transport()
    cycle = new_cycle(transport)
    join_head(cycle.send)
    await cycle.send(CHUNKED)
    cycle.transport.close()
    assert transport.did == [await told([CHUNKED]), "close"]


async def test_a_lane_writes_for_a_client_that_is_there_and_reads():
    transport = Transport()
    cycle = new_cycle(transport)
    await cycle.send(CHUNKED)
    lane = Lane.of(cycle.send)
    assert lane.write(b"1\r\na\r\n")
    cycle.flow.pause_writing()
    assert not lane.write(b"1\r\nb\r\n")
    cycle.flow.resume_writing()
    assert lane.write(b"1\r\nc\r\n")
    cycle.disconnected = True
    assert not lane.write(b"1\r\nd\r\n")
    assert transport.did[1:] == [b"1\r\na\r\n", b"1\r\nc\r\n"]


async def test_who_has_a_lane():
    cycle = new_cycle(Transport())
    await cycle.send(CHUNKED)
    assert Lane.of(with_cors(cycle.send, {"origin": "http://a"}, ["*"])) is not None
    whole = new_cycle(Transport())
    await whole.send(WHOLE)
    assert Lane.of(whole.send) is None

    async def another_servers(message):
        pass

    assert Lane.of(another_servers) is None
    join_head(another_servers)


async def test_nearly_all_chunks_of_a_stream_take_the_lane(open_gateway, make_engine, monkeypatch):
    written = []
    write = Lane.write

    def spied(self, chunk):
        done = write(self, chunk)
        written.append(done)
        return done

    monkeypatch.setattr(Lane, "write", spied)
    engine = make_engine(step_s=0.005)
    async with open_gateway(engine) as gateway, gateway.post(max_tokens=60) as answer:
        text = await answer.text()
    deltas = [orjson.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    tokens = [delta for delta in deltas if delta["choices"] and delta["choices"][0]["delta"].get("content")]
    assert len(written) >= len(tokens) - 5 > 20
    assert all(written)
