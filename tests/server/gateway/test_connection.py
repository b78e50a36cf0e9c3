import asyncio
import re
from itertools import combinations_with_replacement

from k25serve.server.gateway.connection import Connection

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b"3\r\none\r\n1\r\n\n\r\n4;x=\r\n\r\n\r\n\r\n2\r\n2\r\r\n0\r\na: b\r\n\r\n"
PAYLOAD = b"one\n\r\n\r\n2\r"


class Transport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.aborted = False

    def write(self, data):
        pass

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.aborted


def payload(read):
    """Of a read that is one chunk, whole; else None."""
    size = re.match(rb"([0-9a-f]+)\r\n", read)
    if size is None or size[1] == b"0" or len(read) != size.end() + int(size[1], 16) + 2:
        return None
    return read[size.end() : -2]


async def read_in(parts):
    """What a stream that comes in these reads says, and the reads that were taken whole."""
    connection = Connection(lambda _: None, lambda _: None)
    connection.connection_made(Transport())
    soon = asyncio.get_running_loop().time() + 1
    asking = asyncio.create_task(connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"", soon, lambda: None))
    await asyncio.sleep(0)
    connection.data_received(HEAD)
    await asking
    taken, through = [], []

    def whole(read):
        said = payload(read)
        if said is not None:
            taken.append(said)
            through.append(read)
        return said is not None

    pumping = asyncio.create_task(connection.pump(taken.append, lambda since: since + 1, 1, whole))
    await asyncio.sleep(0)
    for part in parts:
        connection.data_received(part)
    taken.append(await pumping)
    assert not connection.closing
    return b"".join(taken), through


async def test_chunks_that_come_whole_are_not_parsed():
    parts = [b"3\r\none\r\n", b"3\r\ntwo\r\n", b"5\r\nthree\r\n", b"0\r\n\r\n"]
    said, through = await read_in(parts)
    assert said == b"onetwothree"
    # The first one shows that chunks come at all.
    assert through == parts[1:3]


async def test_a_stream_says_the_same_wherever_it_is_cut():
    taken = 0
    for first, second in combinations_with_replacement(range(1, len(BODY)), 2):
        parts = [part for part in (BODY[:first], BODY[first:second], BODY[second:]) if part]
        said, through = await read_in(parts)
        assert said == PAYLOAD, parts
        taken += len(through)
    assert taken
