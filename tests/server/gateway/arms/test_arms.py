"""Several engines behind one gateway. Case F03's second half."""

import asyncio

import pytest

ARM = "x-k25serve-arm"


@pytest.fixture
def two_arms(open_gateway, make_engine):
    """A SGLang arm, and a vLLM arm as `gateway.other`."""

    def make(**settings):
        other = make_engine(dialect="vllm")
        more = settings.pop("other", {})
        opened = open_gateway(others=[("vllm", other, more)], **settings)
        opened.other = other
        return opened

    return make


async def ask(gateway, stream=False, **fields):
    async with gateway.post(stream, **fields) as response:
        body = await response.read()
        return response.status, response.headers.get(ARM), body


async def test_a_conversation_stays_where_it_is_and_both_arms_are_used(two_arms):
    async with two_arms() as gateway:
        arms = {}
        for i in range(24):
            headers = {"x-conversation-id": f"c{i}"}
            arms[i] = {(await ask(gateway, i % 2 == 1, headers=headers))[1] for _ in range(3)}
        assert all(len(one) == 1 for one in arms.values())
        assert set.union(*arms.values()) == {"sglang", "vllm"}
        shares = [await gateway.metric("requests_total", arm=arm) for arm in ("sglang", "vllm")]
        assert sum(shares) == 72
        assert min(shares) > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_lossy_arm_says_so_in_every_answer(two_arms, stream):
    async with two_arms(other={"lossy": ("lossy_expert_budget", "fp4_cache")}) as gateway:
        told = {}
        for arm in ("sglang", "vllm"):
            async with gateway.post(stream, headers={ARM: arm}) as response:
                await response.read()
                told[arm] = response.headers.get("x-k25serve-lossy")
    assert told == {"sglang": None, "vllm": "lossy_expert_budget, fp4_cache"}


async def test_each_arm_is_asked_in_its_own_words(two_arms):
    opened = two_arms()
    async with opened as gateway:
        for arm in ("sglang", "vllm"):
            status, got, _ = await ask(gateway, headers={ARM: arm})
            assert (status, got) == (200, arm)
        ours, theirs = gateway.engine.record.calls[-1].body, opened.other.record.calls[-1].body
        assert len(ours["rid"]) == len(theirs["request_id"]) == 32
        assert ours["return_spec_tokens_details"] is True
        assert {"rid", "return_spec_tokens_details"} & theirs.keys() == set()


async def test_acceptance_has_one_definition(two_arms, events):
    sim = {"accepted": [3, 3, 2], "pieces": ["a"]}
    async with two_arms() as gateway:
        for arm in ("sglang", "vllm"):
            for stream in (True, False):
                _, _, body = await ask(gateway, stream, sim=sim, max_tokens=100, headers={ARM: arm})
                assert b"sglext" not in body
                assert b"speculative_decoding" not in body
            assert await gateway.metric("accept_length_sum", arm=arm) == pytest.approx(2 * (1 + 8 / 3))
            assert await gateway.metric("spec_draft_tokens_total", arm=arm) == 18
            positions = [
                await gateway.metric("spec_accepted_tokens_per_pos_total", arm=arm, position=str(i)) for i in range(3)
            ]
            assert positions == [6, 6, 4]


async def test_the_header_is_for_the_staff(two_arms, make_keys):
    keys = make_keys(alice="", ops="staff")
    async with two_arms(keys_file=keys.path, other={"weight": 0}) as gateway:
        assert (await ask(gateway, headers=keys.header("ops") | {ARM: "vllm"}))[:2] == (200, "vllm")
        assert (await ask(gateway, headers=keys.header("alice") | {ARM: "vllm"}))[0] == 403
        assert (await ask(gateway, headers=keys.header("ops") | {ARM: "none"}))[0] == 400
        assert {(await ask(gateway, headers=keys.header("alice"), user=str(i)))[1] for i in range(8)} == {"sglang"}


@pytest.mark.parametrize("stream", [True, False])
async def test_an_arm_that_does_not_answer_is_replaced_before_the_first_byte(two_arms, stream):
    async with two_arms(upstream="http://127.0.0.1:9", breaker={"failures": 100}) as gateway:
        for i in range(12):
            assert (await ask(gateway, stream, user=str(i)))[:2] == (200, "vllm")
        failovers = await gateway.metric("failovers_total", arm="sglang")
        assert failovers > 0
        assert await gateway.metric("upstream_errors_total", arm="sglang", type="refused") == failovers
        assert await gateway.metric("inflight") == 0
        status, arm, _ = await ask(gateway, headers={ARM: "sglang"})
        assert (status, arm) == (503, None)


async def test_an_engines_own_503_is_asked_once_and_passed_on(two_arms):
    opened = two_arms(other={"weight": 0})
    async with opened as gateway:
        status, arm, _ = await ask(gateway, sim={"fault": "queue_full"})
        assert (status, arm) == (503, "sglang")
        assert (len(gateway.engine.record.calls), len(opened.other.record.calls)) == (1, 0)


async def test_nothing_is_repeated_after_the_first_byte(two_arms):
    opened = two_arms()
    async with opened as gateway:
        for i in range(8):
            sim = {"fault": "die_mid_frame", "fault_after": 2, "accepted": [1, 1]}
            status, _, body = await ask(gateway, True, sim=sim, user=str(i))
            assert status == 200
            assert b"engine_closed_connection" in body
        assert len(gateway.engine.record.calls) + len(opened.other.record.calls) == 8


async def test_full_slots_send_a_request_to_the_next_arm(two_arms, eventually):
    arm = {"max_concurrency": 1, "max_queue": 0}
    async with two_arms(arm=arm, other=arm | {"weight": 1e-9}) as gateway:
        held = await gateway.post(sim={"fault": "stall", "fault_after": 2})
        assert held.headers[ARM] == "sglang"
        assert (await ask(gateway))[:2] == (200, "vllm")
        held.close()


async def test_f03_a_loading_or_silent_arm_costs_the_other_nothing(open_gateway, make_engine):
    loading = make_engine(dialect="vllm")
    loading.phase = "silent"
    async with open_gateway(others=[("vllm", loading, {})]) as gateway:

        async def all_arms():
            found = set()
            for i in range(10):
                async with asyncio.timeout(1):
                    status, arm, _ = await ask(gateway, user=str(i))
                assert status == 200
                found.add(arm)
            return found

        assert await all_arms() == {"sglang"}
        loading.phase = "loading"
        assert await all_arms() == {"sglang"}
        loading.phase = "ready"
        await gateway.until_ready("vllm")
        assert await all_arms() == {"sglang", "vllm"}
        loading.phase = "silent"
        await gateway.until_ready("vllm", 0)
        assert await all_arms() == {"sglang"}
        gateway.readiness.set_not_ready("gone too")
        async with gateway.client.get("/ready") as response:
            assert response.status == 503
            reason = (await response.json())["reason"]
        assert "sglang: gone too" in reason
        assert "vllm: " in reason
        assert (await ask(gateway))[0] == 503


async def test_trace_context_goes_on(gateway):
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}
    await ask(gateway, headers=headers)
    sent = gateway.engine.record.calls[-1].headers
    assert {name: sent[name] for name in headers} == headers


async def test_an_arm_with_a_name_of_its_own_for_the_model(open_gateway, make_engine):
    async with open_gateway(make_engine(dialect="vllm"), arm={"model": "their-name"}) as gateway:
        assert (await ask(gateway))[0] == 200
        assert gateway.engine.record.calls[-1].body["model"] == "their-name"
