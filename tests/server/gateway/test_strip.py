import orjson
import pytest

from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.strip import strip_answer, strip_frame
from k25serve.server.gateway.usage import read_frame

SPEC = '{"spec_verify_ct":2,"spec_num_proposed_drafts":6,"spec_num_correct_drafts":5}'
USAGE = '{"prompt_tokens":3,"completion_tokens":8}'
ALL = Strip(usage=True, spec=True)


def stripped(text, strip=ALL):
    frame = f"data: {text}\n\n".encode()
    return strip_frame(frame, read_frame(frame), strip).decode()


@pytest.mark.parametrize(
    "text", ["[DONE]", '{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3}}', "{bad"]
)
def test_frames_with_choices_or_without_json_stay(text):
    assert stripped(text) == f"data: {text}\n\n"


def test_an_empty_frame_that_we_did_not_cause_stays():
    assert stripped('{"id":"x","choices":[],"prompt_filter_results":[]}').startswith("data: ")
    assert stripped('{"id":"x","choices":[],"usage":null}') != ""


def test_closing_frames_go_entirely():
    assert stripped(f'{{"id":"x","choices":[],"usage":null,"sglext":{{"spec_tokens_details":{SPEC}}}}}') == ""
    assert stripped(f'{{"id":"x","choices":[],"usage":{USAGE}}}') == ""


@pytest.mark.parametrize(("strip", "left"), [(Strip(usage=True), "sglext"), (Strip(spec=True), "usage")])
def test_only_what_was_not_asked_for_goes(strip, left):
    text = f'{{"id":"x","choices":[],"usage":{USAGE},"sglext":{{"spec_tokens_details":{SPEC}}}}}'
    document = orjson.loads(stripped(text, strip)[6:])
    assert {"usage", "sglext"} & document.keys() == {left}


def test_the_other_parts_of_sglext_stay_byte_for_byte():
    text = f'{{"id":"x", "choices":[], "sglext": {{"routed_experts":"AAA", "spec_tokens_details" : {SPEC}}} }}'
    assert stripped(text) == 'data: {"id":"x", "choices":[], "sglext": {"routed_experts":"AAA"} }\n\n'


def test_the_first_member_goes_with_the_comma_behind_it():
    text = f'{{"sglext":{{"spec_tokens_details":{SPEC}, "input_ids":[1]}},"choices":[]}}'
    assert stripped(text) == 'data: {"sglext":{"input_ids":[1]},"choices":[]}\n\n'


def answer(content, spaces=""):
    return (
        f'{{"id":"x","choices":[{{"message":{{"content":{content}}}}}],{spaces}"usage":{USAGE},'
        f'{spaces}"sglext":{{"spec_tokens_details":{SPEC}}}{spaces}}}'
    ).encode()


@pytest.mark.parametrize(
    "content", ['"a"', '"say \\"sglext\\": {\\"spec_tokens_details\\": 1}"', '"修 \\u4fee"', '"1.10"', "null"]
)
@pytest.mark.parametrize("spaces", ["", "\n  "])
def test_a_whole_answer_loses_only_sglext(content, spaces):
    raw = answer(content, spaces)
    start = raw.rindex(b"," + spaces.encode() + b'"sglext"')
    assert strip_answer(raw, orjson.loads(raw), ALL) == raw[:start] + spaces.encode() + b"}"


def test_a_whole_answer_keeps_its_usage_and_what_was_asked_for():
    raw = answer('"a"')
    assert strip_answer(raw, orjson.loads(raw), Strip(usage=True)) == raw


def test_a_key_of_the_same_name_elsewhere_is_left_alone():
    raw = b'{"sglext":{"spec_tokens_details":{"spec_verify_ct":1}},"choices":[{"meta_info":{"sglext":1}}],"big":1e2}'
    out = strip_answer(raw, orjson.loads(raw), ALL)
    assert orjson.loads(out) == {"choices": [{"meta_info": {"sglext": 1}}], "big": 100.0}


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":1,"sglext":{{"spec_tokens_details":{SPEC}}},"a":{{"b":2}}}}',
        f'{{"sgle\\u0078t":1,"b":1,"sglext":{{"spec_tokens_details":{SPEC}}}}}',
        f'{{"b":{{"c":1,"sglext":{{}}}},"sglext":{{"spec_tokens_details":{SPEC}}}}}',
        f'{{"b":1,"sglext":{{"spec_tokens_details":{SPEC},"more":{{}}}}}}',
    ],
)
def test_a_whole_answer_that_is_not_what_engines_write_loses_nothing_else(text):
    document = orjson.loads(text)
    left = (
        document | {"sglext": {"more": {}}} if "more" in text else {k: v for k, v in document.items() if k != "sglext"}
    )
    assert orjson.loads(strip_answer(text.encode(), document, ALL)) == left
