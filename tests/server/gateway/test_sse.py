import pytest

from k25serve.server.gateway.sse import FrameSplitter

STREAMS = {
    "lf": b'data: {"a":"\xe4\xbf\xae"}\n\n: ping\n\nevent: x\ndata: 1\ndata: 2\n\ndata: [DONE]\n\n',
    "crlf": b'data: {"a":1}\r\n\r\ndata: [DONE]\r\n\r\n',
    "mixed": b"data: 1\n\r\ndata: 2\r\n\n\ndata: 3\n\n\r\n\r\n",
    "open": b"data: 1\n\ndata: 2\n",
}


def whole(stream):
    splitter = FrameSplitter()
    return splitter.feed(stream), splitter.held


@pytest.mark.parametrize("name", STREAMS)
def test_every_two_way_split_gives_the_same_frames(name):
    stream = STREAMS[name]
    for at in range(len(stream) + 1):
        splitter = FrameSplitter()
        assert (splitter.feed(stream[:at]) + splitter.feed(stream[at:]), splitter.held) == whole(stream)


@pytest.mark.parametrize("name", STREAMS)
def test_byte_by_byte_gives_the_same_frames(name):
    stream = STREAMS[name]
    splitter = FrameSplitter()
    frames = [frame for i in range(len(stream)) for frame in splitter.feed(stream[i : i + 1])]
    assert (frames, splitter.held) == whole(stream)


@pytest.mark.parametrize("name", STREAMS)
def test_frames_and_what_is_held_are_the_stream(name):
    frames, held = whole(STREAMS[name])
    assert b"".join(frames) + held == STREAMS[name]


def test_frames_end_where_they_should():
    assert whole(STREAMS["lf"])[0] == [
        b'data: {"a":"\xe4\xbf\xae"}\n\n',
        b": ping\n\n",
        b"event: x\ndata: 1\ndata: 2\n\n",
        b"data: [DONE]\n\n",
    ]
    assert whole(STREAMS["crlf"])[0] == [b'data: {"a":1}\r\n\r\n', b"data: [DONE]\r\n\r\n"]
    assert whole(STREAMS["open"]) == ([b"data: 1\n\n"], b"data: 2\n")


def test_a_large_frame_in_single_bytes_takes_linear_time():
    frame = b"data: " + b"x" * 300_000 + b"\n\n"
    splitter = FrameSplitter()
    frames = [done for i in range(len(frame)) for done in splitter.feed(frame[i : i + 1])]
    assert frames == [frame]
