import pytest

from k25serve.bench.expert_budget.agreement import compare
from k25serve.bench.expert_budget.ask import Answer, ask
from k25serve.drafters.gate.prompts import load_prompts
from k25serve.server.errors import UserError


def answer(*tokens: int, accepted: int = 0, steps: int = 0) -> Answer:
    return Answer(tokens, accepted, steps)


def test_equal_answers() -> None:
    found = compare([answer(1, 2, 3), answer(4)], [answer(1, 2, 3), answer(4)])
    assert (found.first, found.identical, found.agreed, found.per_token) == ((None, None), 1, 1, 0)
    assert found.accept_length == 1


def test_where_they_part() -> None:
    reference = [answer(1, 2, 3, 4)] * 4
    answers = [answer(9, 2, 3, 4), answer(1, 2, 9, 9), answer(1, 2, 3, 4), answer(1, 2, 3, accepted=3, steps=2)]
    found = compare(answers, reference)
    assert found.first == (0, 2, None, 3)
    assert found.identical == 0.25
    assert found.agreed == (0 + 2 + 4 + 3) / 16
    assert found.per_token == 3 / (9 + 3)
    assert found.accept_length == 2.5


async def test_an_engine_that_tells_no_ids_is_refused() -> None:
    from aiohttp import web
    from aiohttp.test_utils import TestServer

    seen = []

    async def chat(request: web.Request) -> web.Response:
        seen.append(await request.json())
        return web.json_response({"choices": [{"message": {"content": "x"}}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    async with TestServer(app) as server:
        with pytest.raises(UserError, match="has no response_token_ids"):
            await ask(str(server.make_url("")), load_prompts(), 1, 5, 1)
    assert seen[0]["temperature"] == 0
    assert seen[0]["max_tokens"] == 5
    assert seen[0]["ignore_eos"] is True
