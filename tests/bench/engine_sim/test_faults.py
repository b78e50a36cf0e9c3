import pytest

from k25serve.bench.engine_sim.faults import HangUp, Stall, Write, stream_actions
from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.engine_sim.sglang import DONE, Frame

FRAMES = (Frame(b'{"a":1}', 0.5), Frame(b'{"b":2}', 0.25), DONE)


def play(**options):
    """The bytes that go out, and how it ended."""
    actions = list(stream_actions(iter(FRAMES), SimOptions(**options)))
    written = b"".join(action.data for action in actions if isinstance(action, Write))
    return written, type(actions[-1])


WHOLE = b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n'


def test_without_a_fault_every_frame_goes_out_in_its_time():
    actions = list(stream_actions(iter(FRAMES), SimOptions()))
    assert [action.seconds for action in actions] == [0.5, 0.25, 0.0]
    assert b"".join(action.data for action in actions) == WHOLE


@pytest.mark.parametrize(
    ("options", "written", "end"),
    [
        ({"fault": "die_mid_frame", "fault_after": 1}, b'data: {"a":1}\n\ndata: {', HangUp),
        ({"fault": "die_between_frames", "fault_after": 1}, b'data: {"a":1}\n\n', HangUp),
        ({"fault": "die_between_frames", "fault_after": 9}, WHOLE, HangUp),
        ({"fault": "stall", "fault_after": 1}, b'data: {"a":1}\n\n', Stall),
        ({"fault": "end_early", "fault_after": 1}, b'data: {"a":1}\n\n', Write),
        ({"fault": "no_done"}, WHOLE.removesuffix(b"data: [DONE]\n\n"), Write),
        ({"crlf": True}, WHOLE.replace(b"\n", b"\r\n"), Write),
        ({"one_write": True}, WHOLE, Write),
        ({"one_write": True, "fault": "die_between_frames", "fault_after": 1}, b'data: {"a":1}\n\n', HangUp),
    ],
)
def test_fault(options, written, end):
    assert play(**options) == (written, end)


def test_an_error_frame_ends_the_stream_in_sglangs_shape():
    written, _ = play(fault="error_frame", fault_after=1)
    assert written == (
        b'data: {"a":1}\n\n'
        b'data: {"error":{"object":"error","message":"Generation aborted.","type":"INTERNAL_SERVER_ERROR","param":null,'
        b'"code":500}}\n\ndata: [DONE]\n\n'
    )


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_any_write_size_gives_the_same_bytes(size):
    actions = list(stream_actions(iter(FRAMES), SimOptions(write_bytes=size)))
    assert b"".join(action.data for action in actions) == WHOLE
    assert max(len(action.data) for action in actions) <= size
    assert sum(action.seconds for action in actions) == 0.75
