"""The row over a small serving class, in the shape of SGLang 0.5.17's."""

import json
from types import SimpleNamespace

import pytest

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks.spec_tokens_details import SpecTokensDetails
from k25serve.server.gateway.acceptance import spec_stats

META = {
    "id": "r1",
    "completion_tokens": 9,
    "spec_accept_rate": 0.5,
    "spec_num_correct_drafts": 3,
    "spec_num_proposed_drafts": 6,
    "spec_verify_ct": 2,
    "spec_correct_drafts_histogram": [0, 1, 1],
    "spec_accepted_drafts": 3,
}


class Request:
    def __init__(self, **body):
        self.body = {"model": "m", **body}

    async def json(self):
        return self.body


class Engine:
    """Answers of the tokenizer manager, through the row's hook as SGLang would call it."""

    def __init__(self, row, answers):
        self.row, self.answers = row, answers

    async def _original(self, manager, obj, request=None):
        for answer in self.answers:
            yield answer

    def generate_request(self, obj, request=None):
        return self.row.generate(self._original, self, obj, request)


def frame(**fields):
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps(head | fields, separators=(',', ':'))}\n\n"


async def stream(serving, adapted, request, raw_request):
    """As `_generate_chat_stream`: a frame an answer, then the usage if asked for, then the end."""
    async for _ in serving.tokenizer_manager.generate_request(adapted, raw_request):
        yield frame(choices=[{"delta": {"content": 'say "choices":[] and data: [DONE] '}}])
    if request.usage:
        yield frame(choices=[], usage={"completion_tokens": 9})
    yield "data: [DONE]\n\n"


@pytest.fixture
def row():
    return SpecTokensDetails(Context(Here("0.5.17", "cuda", "main"), {}))


async def frames(row, answers, usage=True, **body):
    serving = SimpleNamespace(tokenizer_manager=Engine(row, answers))
    asked = row.stream(stream, serving, SimpleNamespace(), SimpleNamespace(usage=usage), Request(**body))
    found = [item async for item in asked]
    assert row._asked == {}
    return found


def details(found):
    held = [json.loads(item[6:])["sglext"] for item in found if '"sglext"' in item]
    return held[0]["spec_tokens_details"] if held else None


ONE = [{"index": 0, "meta_info": {"id": "r1"}}, {"index": 0, "meta_info": META}]


@pytest.mark.parametrize(("usage", "place"), [(True, -3), (False, -2)])
async def test_a_stream_that_asks_gets_one_more_frame_before_the_usage(row, usage, place):
    found = await frames(row, ONE, usage, return_spec_tokens_details=True)
    plain = await frames(row, ONE, usage)
    assert [item for item in found if '"sglext"' not in item] == plain
    extra = json.loads(found[place][6:])
    assert extra["choices"] == []
    assert (extra["id"], extra["object"], extra["model"]) == ("r1", "chat.completion.chunk", "m")
    assert extra["sglext"]["spec_tokens_details"] == {
        name: value for name, value in META.items() if name.startswith("spec_") and name != "spec_accepted_drafts"
    }


async def test_the_gateway_reads_it(row):
    stats = spec_stats(details(await frames(row, ONE, return_spec_tokens_details=True)))
    assert stats is not None
    assert (stats.steps, stats.accepted, stats.proposed, stats.histogram) == (2, 3, 6, (0, 1, 1))


@pytest.mark.parametrize("flag", [None, False, 1, "true"])
async def test_who_does_not_ask_gets_sglangs_stream(row, flag):
    body = {} if flag is None else {"return_spec_tokens_details": flag}
    assert details(await frames(row, ONE, **body)) is None


async def test_several_choices_are_a_list(row):
    answers = [*ONE, {"index": 1, "meta_info": META | {"spec_verify_ct": 7}}]
    found = details(await frames(row, answers, return_spec_tokens_details=True))
    assert [part["spec_verify_ct"] for part in found] == [2, 7]


@pytest.mark.parametrize("answers", [[], ONE[:1]])
async def test_without_a_verify_step_there_is_nothing_to_say(row, answers):
    found = await frames(row, answers, return_spec_tokens_details=True)
    assert details(found) is None
    assert found[-1] == "data: [DONE]\n\n"


async def test_an_error_in_the_middle_of_a_stream_stays_what_it_is(row):
    async def failing(serving, adapted, request, raw_request):
        async for _ in serving.tokenizer_manager.generate_request(adapted, raw_request):
            yield frame(choices=[{}])
        raise ValueError("theirs")

    serving = SimpleNamespace(tokenizer_manager=Engine(row, ONE))
    request = Request(return_spec_tokens_details=True)
    with pytest.raises(ValueError, match="theirs"):
        [item async for item in row.stream(failing, serving, SimpleNamespace(), SimpleNamespace(), request)]
    assert row._asked == {}


class Response:
    def __init__(self):
        self.choices, self.sglext = [{}], None

    def model_dump(self, mode, by_alias):
        return {"id": "r1", "choices": self.choices} | ({"sglext": self.sglext} if self.sglext else {})


async def whole(row, answers, response, **body):
    async def original(serving, adapted, request, raw_request):
        await anext(serving.tokenizer_manager.generate_request(adapted, raw_request))
        return response

    serving = SimpleNamespace(tokenizer_manager=Engine(row, answers))
    return await row.whole(original, serving, SimpleNamespace(), SimpleNamespace(), Request(**body))


@pytest.mark.parametrize("answer", [ONE[1], [ONE[1]]], ids=["one", "list"])
async def test_a_whole_answer(row, answer):
    response = Response()
    response.sglext = {"cached_tokens_details": 1}
    found = json.loads((await whole(row, [answer], response, return_spec_tokens_details=True)).body)
    assert found["sglext"]["spec_tokens_details"]["spec_verify_ct"] == 2
    assert found["sglext"]["cached_tokens_details"] == 1
    assert found["id"] == "r1"
    assert await whole(row, [answer], response) is response


async def test_an_error_answer_passes(row):
    error = SimpleNamespace(status_code=400)
    assert await whole(row, [ONE[1]], error, return_spec_tokens_details=True) is error
    assert row._asked == {}
