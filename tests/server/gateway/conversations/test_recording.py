"""What becomes a line, in both dialects and both ways of answering."""

import asyncio
import re
from datetime import datetime

import orjson
import pytest

from k25serve.server.gateway.lane import Lane

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALLS = [{"name": "weather", "arguments": ['{"city":', '"Rom', 'e"}']}, {"name": "weather", "arguments": ["{}"]}]
TEXT = {"pieces": ["Ich ", 'denke\n"', "修改🙂", "so"], "accepted": [3, 0, 2], "reasoning_steps": 2, "prompt_tokens": 7}
MADE = [
    {"id": "functions.weather:0", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
    {"id": "functions.weather:1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
]
SHORT = {"accepted": [1]}
DIALECTS = pytest.mark.parametrize("dialect", ["sglang", "vllm"])


async def answered(gateway, stream=True, **fields):
    async with gateway.post(stream, **fields) as response:
        raw = await response.read()
        assert response.status == 200
        return raw, response.headers["x-request-id"]


@DIALECTS
@pytest.mark.parametrize("stream", [True, False])
async def test_a_line_holds_what_was_asked_and_answered(recording, make_engine, read, dialect, stream):
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": "Weather?", "name": "ann", "mood": "dropped"},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "I ask.",
            "tool_calls": [
                {"id": "functions_weather_0", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "functions_weather_0", "content": "sunny"},
    ]
    async with recording(make_engine(dialect=dialect), reasoning_field="reasoning") as gateway:
        _, rid = await answered(
            gateway,
            stream,
            sim=TEXT | {"tool_calls": CALLS},
            messages=messages,
            tools=TOOLS,
            chat_template_kwargs={"thinking": True},
        )
    (line,) = read()
    assert datetime.fromisoformat(line.pop("started")).utcoffset() is not None
    usage = line.pop("usage")
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (7, 9, 16)
    # vLLM's stand-in counts no reasoning.
    assert (usage["completion_tokens_details"]["reasoning_tokens"] > 0) == (dialect == "sglang")
    assert line == {
        "id": rid,
        "model": "kimi",
        "arm": dialect,
        "thinking": True,
        "tools": TOOLS,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?", "name": "ann"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "I ask.",
                "tool_calls": [MADE[1] | {"id": "functions.weather:0"}],
                "weight": 0,
            },
            {"role": "tool", "content": "sunny", "tool_call_id": "functions.weather:0"},
            {
                "role": "assistant",
                "content": "修改🙂so",
                "reasoning_content": 'Ich denke\n"',
                "tool_calls": MADE,
            },
        ],
    }


@DIALECTS
async def test_the_engines_writes_do_not_matter(recording, make_engine, read, dialect):
    writes = [{"write_bytes": 3}, {"write_bytes": 7}, {"one_write": True}, {"crlf": True}]
    async with recording(make_engine(dialect=dialect)) as gateway:
        for one in writes:
            await answered(gateway, sim=TEXT | one)
    lines = read()
    assert len(lines) == len(writes)
    for line in lines:
        assert line["messages"] == [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "修改🙂so", "reasoning_content": 'Ich denke\n"'},
        ]
        assert (line["thinking"], line["tools"]) == (None, None)


async def test_the_lane_stays_open_and_is_listened_to(recording, make_engine, read, monkeypatch):
    """Chunks that are known by their bytes alone go the short way, and none is missing or told twice."""
    written = []
    write = Lane.write

    def seldom(self, chunk):
        """Every fifth time as if the client read too slowly."""
        written.append(len(written) % 5 != 4 and write(self, chunk))
        return written[-1]

    monkeypatch.setattr(Lane, "write", seldom)
    async with recording(make_engine(step_s=0.003), thinking={"default": False}) as gateway:
        raw, _ = await answered(gateway, sim={"reasoning_steps": 20, "accepted": [1] * 60}, max_tokens=1000)
    deltas = [
        orjson.loads(data)["choices"][0]["delta"]
        for data in re.findall(rb"data: (\{.*)", raw)
        if b'"choices":[]' not in data
    ]
    (line,) = read()
    answer = line["messages"][-1]
    assert sum(written) > 30
    for field in ("content", "reasoning_content"):
        assert answer[field] == "".join(delta.get(field) or "" for delta in deltas)
        assert len(answer[field]) > 20
    assert line["thinking"] is False


@pytest.mark.parametrize("stream", [True, False])
async def test_markup_that_the_engine_left_is_a_call(recording, read, stream):
    markup = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>",
        '{"city":"Rome"}<|tool_call_end|><|tool_calls_section_end|>',
    )
    async with recording() as gateway:
        sim = {"pieces": ["Let me see. ", *markup], "accepted": [1, 1]}
        await answered(gateway, stream, sim=sim, tools=TOOLS)
    (line,) = read()
    answer = line["messages"][-1]
    assert (answer["content"], answer["tool_calls"]) == ("Let me see. ", MADE[:1])


async def test_clients_get_the_same_bytes(recording, open_gateway, make_engine, read):
    sim = TEXT | {"tool_calls": CALLS}
    raws = []
    for opened in (open_gateway(make_engine()), recording(make_engine())):
        async with opened as gateway:
            raw, rid = await answered(gateway, sim=sim, tools=TOOLS)
            raws.append(re.sub(rb'"created":\d+', b"", raw.replace(rid.encode(), b"ID")))
    assert raws[0] == raws[1]
    assert len(read()) == 1


IMAGE = [
    {"type": "text", "text": "What is it?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
]
NOT_MATERIAL = {
    "cut at max_tokens": {"max_tokens": 1},
    "two choices": {"n": 2},
    "an image": {"messages": [{"role": "user", "content": IMAGE}]},
    "the rest of a message": {"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]},
    "function role": {
        "messages": [{"role": "function", "name": "f", "content": "x"}, {"role": "user", "content": "?"}]
    },
    "function call": {
        "messages": [{"role": "assistant", "function_call": {}, "name": 3}, {"role": "user", "content": ""}]
    },
    "a completion": {"path": "/v1/completions", "prompt": "x"},
    "no text": {"sim": {"whole": '{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}'}},
    "odd text": {"sim": {"whole": '{"choices":[{"message":{"content":3},"finish_reason":"stop"}]}'}},
    "aborted": {"sim": {"fault": "abort"}},
    "refused": {"sim": {"fault": "bad_request"}},
    "failed": {"sim": {"fault": "plain_500"}},
    "half": {"sim": {"fault": "die_mid_frame"}},
}


async def test_what_is_no_material_is_not_written(recording, read):
    async with recording() as gateway:
        for stream in (False, True):
            for name, fields in NOT_MATERIAL.items():
                if stream and "whole" in fields.get("sim", {}):
                    continue
                async with gateway.post(stream, **{"sim": SHORT, **fields}) as response:
                    await response.read()
                    assert response.status == 200 or name in ("aborted", "refused", "failed", "half"), name
        assert await gateway.metric("conversations_logged_total", outcome="written") == 0
    assert read() == []


async def test_a_stream_that_breaks_is_not_written(recording, read):
    async with recording(idle_timeout_s=0.05) as gateway:
        for fault in ("die_mid_frame", "die_between_frames", "end_early", "no_done", "error_frame", "abort", "stall"):
            sim = {"fault": fault, "fault_after": 3, "accepted": [1, 1, 1]}
            assert b'"error":' in (await answered(gateway, sim=sim))[0], fault
    assert read() == []


async def test_a_frame_that_cannot_be_read_spoils_its_answer(recording, read):
    frames = [
        '{"choices":[{"index":0,"delta":{"content":"a"}}]}',
        '{"choices":[{"index":0,"delta":{"content":broken}}]}',
        '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        "[DONE]",
    ]
    async with recording() as gateway:
        await answered(gateway, sim={"frames": frames})
        await answered(gateway, sim={"frames": [frames[0], *frames[2:]]})
    (line,) = read()
    assert line["messages"][-1] == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves(recording, read, eventually, stream):
    async with recording() as gateway:
        sim = {"step_s": 0.02, "accepted": [0] * 50}
        asking = asyncio.create_task(answered(gateway, stream, sim=sim, max_tokens=1000))
        await eventually(lambda: gateway.engine.record.running)
        await asyncio.sleep(0.1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: gateway.engine.record.cancellations)
    assert read() == []


async def test_nothing_tells_who_asked(recording, make_keys, folder):
    keys = make_keys(alice="")
    headers = keys.header("alice") | {"x-conversation-id": "secret-header", "user-agent": "secret-agent"}
    fields = {"user": "secret-user", "metadata": {"who": "secret-meta"}, "sim": SHORT}
    async with recording(keys_file=keys.path) as gateway, gateway.post(headers=headers, **fields) as response:
        assert response.status == 200
        await response.read()
    (file,) = folder.iterdir()
    text = file.read_text()
    assert '"content":"hi"' in text
    for word in ("secret", "alice", "127.0.0.1"):
        assert word not in text


async def test_a_share_of_the_requests(recording, read, monkeypatch):
    drawn = iter([0x3F, 0x40, 0x00, 0xFF])
    monkeypatch.setattr("k25serve.server.gateway.plan.os.urandom", lambda size: bytes([next(drawn)] * size))
    async with recording(log={"sample": 0.25}) as gateway:
        for _ in range(4):
            await answered(gateway, False, sim=SHORT)
    assert [line["id"][:2] for line in read()] == ["3f", "00"]


async def test_an_arm_under_another_name_and_the_one_that_failed_over(recording, make_engine, read):
    other = ("spare", make_engine(dialect="vllm"), {"model": "k2.5", "weight": 0.001})
    async with recording(upstream="http://127.0.0.1:9", arm={"weight": 1000.0}, others=[other]) as gateway:
        _, rid = await answered(gateway, sim=SHORT)
    (line,) = read()
    assert (line["id"], line["arm"], line["model"]) == (rid, "spare", "k2.5")
