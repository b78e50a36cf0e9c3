import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k25serve.server.gateway.arms.dialects import WORDS
from k25serve.server.gateway.dialect.answer import StreamRewriter
from k25serve.server.gateway.dialect.rules import answer_rules
from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.shape import FrameShape
from k25serve.server.gateway.stream import StreamFilter
from k25serve.server.gateway.usage import TOKENS

SETTINGS = GatewaySettings(upstream="http://127.0.0.1:1", served_model_name="kimi")
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def frame(text, key="content", **more):
    choice = {"index": 0, "delta": {key: text}, "logprobs": None, "finish_reason": None}
    return b"data: " + orjson.dumps({"id": "a", "choices": [choice], **more}) + b"\n\n"


def learned(text="hello"):
    shape = FrameShape()
    shape.learn(frame(text))
    return shape


def test_another_text_fits():
    assert learned().fits(frame("naïve 修改 🙂"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        frame(""),
        frame("a") + frame("b"),
        frame("a")[:-1],
        frame("a", key="reasoning_content"),
        frame("a", usage=None),
        frame('a "quote"'),
        frame("a\nline"),
        frame("<|tool_calls_section_begin|>"),
        frame("functions_f_0"),
        frame("aXb").replace(b"X", b"\x01"),
        frame("aXb").replace(b"X", b"\xc3"),
        frame("aXb").replace(b"X", b'","role":"b'),
    ],
)
def test_what_has_another_shape_or_no_plain_text(data):
    assert not learned().fits(data)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_a_frame_that_is_a_chunk():
    assert learned().fits_chunk(chunk(frame("naïve 修改 🙂")))


@pytest.mark.parametrize(
    "read",
    [
        b"",
        b"0\r\n\r\n",
        frame("a"),
        chunk(frame("")),
        chunk(frame("a")) * 2,
        chunk(frame("a") * 2),
        chunk(frame("a"))[:-1],
        chunk(frame("a"))[1:],
        chunk(frame("a")) + b"0\r\n\r\n",
        b"0" + chunk(frame("a")),
        b"+" + chunk(frame("a")),
        b"1" + chunk(frame("a")),
        chunk(frame("a")).replace(b"\r\n", b";x\r\n", 1),
        chunk(frame("a", key="reasoning_content")),
        chunk(frame('a "quote"')),
        chunk(frame("<|tool_calls_section_begin|>")),
    ],
)
def test_what_is_no_such_chunk(read):
    assert not learned().fits_chunk(read)
    assert not FrameShape().fits_chunk(read)


def test_nothing_fits_before_a_frame_was_learned():
    assert not FrameShape().fits(b"")
    assert not FrameShape().fits(frame("a"))


def test_a_text_that_is_not_plain_teaches_nothing():
    assert not learned('"').fits(frame("a"))


TEXTS = st.one_of(
    st.text(min_size=1, max_size=12),
    st.sampled_from(["", "<|tool_call_begin|>", "functions_f_0", "[DONE]", "\\u003c", '"finish_reason":"abort"', "é"]),
)
FRAMES = st.lists(
    st.builds(frame, TEXTS, key=st.sampled_from(["content", "content", "content", "reasoning"])), max_size=12
)


@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
@pytest.mark.parametrize("tools", [None, TOOLS])
@given(frames=FRAMES)
def test_the_short_way_gives_what_parsing_gives(dialect, tools, frames):
    """A filter that learned frame by frame against one that never can, since it gets the same bytes in halves."""
    body = {"messages": [], "stream": True} | ({"tools": tools} if tools else {})
    rules = answer_rules(body, WORDS[dialect], SETTINGS)
    short, parsed = (StreamFilter(Strip(usage=True), StreamRewriter(rules)) for _ in range(2))
    for data in frames:
        head, none = parsed.feed(data[:9])
        tail, readings = parsed.feed(data[9:])
        assert (head, list(none)) == (b"", [])
        out, seen = short.feed(data)
        assert (out, list(seen)) == (tail, list(readings))
    assert short.finish() == parsed.finish()


def test_the_short_way_is_taken(monkeypatch):
    stream = StreamFilter(Strip())
    stream.feed(frame("a"))
    monkeypatch.setattr("k25serve.server.gateway.stream.read_frame", None)
    assert stream.feed(frame("b")) == (frame("b"), (TOKENS,))
