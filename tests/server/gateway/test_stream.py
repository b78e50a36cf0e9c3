import itertools
import random

import pytest

from k25serve.bench.engine_sim.draw import draw_answer
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings
from k25serve.bench.engine_sim.sglang import Asked, stream_frames
from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.stream import StreamFilter

PIECES = ("修改", "🙂", 'quote " and \\ and \n\n', "data: [DONE]")


def engine_stream(end=b"\n\n", *, usage=True, spec=True):
    options = SimOptions(accepted=(3, 1), pieces=PIECES, reasoning_steps=1)
    asked = Asked("r", "sim", True, 1, include_usage=usage, continuous_usage=False, spec_details=spec, created=5)
    answer = draw_answer(SimSettings(), options, 7, 100, random.Random(0))
    return b"".join(b"data: " + frame.data + end for frame in stream_frames(asked, answer, options))


def through(stream, strip, cuts=()):
    frames = StreamFilter(strip)
    bounds = [0, *cuts, len(stream)]
    out = b"".join(frames.feed(stream[a:b])[0] for a, b in itertools.pairwise(bounds))
    return out + frames.finish()[0], frames


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("strip", [Strip(), Strip(usage=True), Strip(spec=True), Strip(usage=True, spec=True)])
def test_every_split_gives_what_the_client_asked_for(strip, end):
    """Stripping equals never having asked: the sent bytes are those of an engine that wasn't."""
    stream = engine_stream(end)
    wanted = engine_stream(end, usage=not strip.usage, spec=not strip.spec)
    for at in range(len(stream) + 1):
        assert through(stream, strip, (at,))[0] == wanted
    assert through(stream, strip, range(1, len(stream)))[0] == wanted


def test_complete_frames_leave_at_once_and_an_open_one_waits():
    frames = StreamFilter(Strip())
    assert frames.feed(b"data: 1\n\ndata: 2")[0] == b"data: 1\n\n"
    assert frames.feed(b"\n\n")[0] == b"data: 2\n\n"


def test_a_megabyte_frame():
    stream = b'data: {"choices":[{"delta":{"content":"' + b"x" * 2**20 + b'"}}]}\n\ndata: [DONE]\n\n'
    out, frames = through(stream, Strip(usage=True, spec=True), range(65536, len(stream), 65536))
    assert out == stream
    assert frames.complete


def test_done_or_an_error_completes_a_stream():
    assert through(b"data: [DONE]\n\n", Strip())[1].complete
    assert through(b'data: {"error":{"message":"x"}}\n\n', Strip())[1].complete
    assert not through(b'data: {"choices":[]}\n\n', Strip())[1].complete


def test_a_done_without_its_blank_line_is_passed_on_as_it_is():
    out, frames = through(b"data: [DONE]\n", Strip())
    assert out == b"data: [DONE]\n"
    assert frames.complete


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n"])
def test_an_open_frame_with_whole_json_is_ended(tail):
    out, _ = through(b'data: {"choices":[]}' + tail, Strip())
    assert out == b'data: {"choices":[]}\n\n'


@pytest.mark.parametrize("cut", [b"data", b'data: {"cho', b"data: {", b"\n", b"data:", b": pi"])
def test_a_frame_that_was_cut_inside_is_dropped(cut):
    assert through(b"data: 1\n\n" + cut, Strip())[0] == b"data: 1\n\n"
