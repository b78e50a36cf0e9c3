from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

TEN_STEPS = {"accepted": [3, 3, 3, 3, 3, 2, 2, 2, 1, 0], "prompt_tokens": 40, "cached_tokens": 16, "step_s": 0.02}


async def test_a_streams_numbers(gateway):
    """33 tokens: the prefill's and, from ten verify steps of three drafts, 22 accepted ones and ten more."""
    await (await gateway.post(sim=TEN_STEPS | {"header_delay_s": 0.1, "reasoning_steps": 2}, max_tokens=100)).read()
    kinds = ("prompt", "cached", "completion", "reasoning")
    assert [await gateway.metric("tokens_total", kind=kind) for kind in kinds] == [40, 16, 33, 5]
    assert await gateway.metric("spec_steps_total") == 10
    assert await gateway.metric("spec_draft_tokens_total") == 30
    assert await gateway.metric("spec_accepted_tokens_total") == 22
    assert [await gateway.metric("spec_accept_hist_total", accepted=str(i)) for i in range(4)] == [1, 1, 3, 5]
    assert round(await gateway.metric("accept_length_sum"), 6) == 3.2
    assert 0.1 <= await gateway.metric("ttft_seconds_sum") < 0.3
    assert await gateway.metric("step_seconds_count") == 10
    assert 0.2 <= await gateway.metric("step_seconds_sum") < 0.4
    assert 0.2 / 32 <= await gateway.metric("tpot_seconds_sum") < 0.4 / 32
    assert 0.3 <= await gateway.metric("request_seconds_sum", outcome="ok") < 0.6
    assert await gateway.metric("overhead_seconds_sum", phase="pre") < 0.05
    labels = {"arm": "sglang", "model": "kimi", "stream": "true"}
    assert await gateway.metric("requests_total", **labels) == 1
    assert await gateway.metric("responses_total", code="200", **labels) == 1


async def test_a_whole_answers_numbers(gateway):
    await (await gateway.post(stream=False, sim=TEN_STEPS, max_tokens=100)).read()
    assert round(await gateway.metric("accept_length_sum", stream="false"), 6) == 3.2
    assert await gateway.metric("tokens_total", kind="completion") == 33
    assert await gateway.metric("ttft_seconds_count") == 0
    assert await gateway.metric("tpot_seconds_count") == 0


async def test_one_token_has_no_verify_step_and_no_sample(gateway):
    for stream in (True, False):
        await (await gateway.post(stream, max_tokens=1)).read()
    assert await gateway.metric("accept_length_count") == 0
    assert await gateway.metric("spec_steps_total") == 0
    assert await gateway.metric("tokens_total", kind="completion") == 2


async def test_two_choices_are_added_up(gateway):
    await (await gateway.post(sim={"accepted": [3, 1]}, n=2)).read()
    assert await gateway.metric("spec_steps_total") == 4
    assert await gateway.metric("accept_length_count") == 1
    assert await gateway.metric("accept_length_sum") == 3.0
    assert await gateway.metric("step_seconds_count") == 0


async def test_usage_that_the_client_did_not_want_is_measured_all_the_same(gateway):
    async with gateway.post(sim=TEN_STEPS, max_tokens=100) as response:
        assert b"sglext" not in await response.read()
    assert await gateway.metric("tokens_total", kind="prompt") == 40


async def test_a_scraper_may_ask_for_openmetrics(gateway):
    async with gateway.client.get("/metrics", headers={"Accept": "application/openmetrics-text"}) as response:
        assert response.headers["content-type"].startswith(CONTENT_TYPE_LATEST.split(";")[0])
        assert (await response.text()).endswith("# EOF\n")
