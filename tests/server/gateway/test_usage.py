import orjson
import pytest

from k25serve.server.gateway.acceptance import SpecStats
from k25serve.server.gateway.usage import Usage, read_answer, read_frame


def frame(document):
    return b"data: " + orjson.dumps(document) + b"\n\n"


def delta(**fields):
    return frame({"choices": [{"index": 0, "delta": fields}]})


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "a"},
        {"content": None, "reasoning_content": "a"},
        {"reasoning": "a"},
        {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]},
    ],
)
def test_new_text_of_any_kind_is_a_token(fields):
    assert read_frame(delta(**fields)).tokens


@pytest.mark.parametrize(
    "fields", [{"role": "assistant", "content": ""}, {"reasoning_content": None}, {"tool_calls": []}, {}]
)
def test_a_role_or_an_empty_delta_is_none(fields):
    assert not read_frame(delta(**fields)).tokens


def test_text_of_a_completion_is_a_token():
    assert read_frame(frame({"choices": [{"index": 0, "text": "a"}], "usage": None})).tokens
    assert not read_frame(frame({"choices": [{"index": 0, "text": ""}], "usage": None})).tokens


def test_a_second_choice_counts_too():
    assert read_frame(frame({"choices": [{"delta": {}}, {"delta": {"content": "b"}}]})).tokens


@pytest.mark.parametrize("done", [b"data: [DONE]\n\n", b"data:[DONE]\r\n\r\n", b"\ndata: [DONE]\n\n"])
def test_done(done):
    assert read_frame(done).done


@pytest.mark.parametrize("quiet", [b": ping\n\n", b"\n\n", b"event: x\n\n", b"id: 1\nretry: 5\n\n"])
def test_frames_without_data_say_nothing(quiet):
    reading = read_frame(quiet)
    assert not reading.unreadable
    assert not reading.tokens


@pytest.mark.parametrize("broken", [b'data: {"a":\n\n', b"data: \xff\xfe\n\n", b"data: [1]\n\n"])
def test_what_is_not_a_json_object_is_unreadable(broken):
    assert read_frame(broken).unreadable


def test_an_error_is_seen():
    assert read_frame(frame({"error": {"message": "x"}})).error
    assert not read_frame(frame({"error": None, "choices": []})).error


def test_lines_of_data_are_joined():
    assert read_frame(b'event: e\r\ndata: {"choices":\r\ndata: [{"delta":{"content":"a"}}]}\r\n\r\n').tokens


def test_usage_with_openais_details():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    reading = read_frame(frame({"choices": [], "usage": usage}))
    assert reading.usage == Usage(prompt=10, cached=4, completion=7, reasoning=3)
    assert reading.tail is not None


def test_usage_with_sglangs_flat_reasoning_tokens_and_nulls():
    usage = {"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None, "reasoning_tokens": 3}
    assert read_frame(frame({"choices": [], "usage": usage})).usage == Usage(prompt=10, reasoning=3)


def test_usage_beside_choices_is_read_but_the_frame_is_no_tail():
    reading = read_frame(frame({"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 1}}))
    assert reading.usage == Usage(prompt=1)
    assert reading.tail is None


def test_acceptance_of_a_stream_and_of_a_whole_answer():
    details = {"spec_verify_ct": 2, "spec_num_proposed_drafts": 6, "spec_num_correct_drafts": 5}
    document = {"choices": [], "sglext": {"spec_tokens_details": details}}
    assert read_frame(frame(document)).spec == SpecStats(2, 6, 5)
    assert read_answer(document | {"choices": [{"message": {}}]}).spec == SpecStats(2, 6, 5)


def test_impossible_acceptance_is_flagged_not_raised():
    details = {"spec_verify_ct": 2, "spec_num_proposed_drafts": 6, "spec_num_correct_drafts": 7}
    reading = read_frame(frame({"choices": [], "sglext": {"spec_tokens_details": details}}))
    assert reading.spec is None
    assert reading.spec_invalid


@pytest.mark.parametrize("odd", [{"choices": None}, {"choices": [None, 1]}, {"choices": {}}, {"usage": 3}, {}])
def test_odd_documents_say_nothing(odd):
    reading = read_frame(frame(odd))
    assert not reading.tokens
    assert reading.usage is None


def test_why_an_answer_ended_is_read():
    ended = {"index": 0, "delta": {}, "finish_reason": "length"}
    assert read_frame(frame({"choices": [ended]})).finish == "length"
    assert read_frame(frame({"choices": [ended | {"finish_reason": None}]})).finish is None
    assert read_answer({"choices": [{"message": {}, "finish_reason": "stop"}]}).finish == "stop"
