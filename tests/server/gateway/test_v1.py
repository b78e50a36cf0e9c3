import pytest


async def error_of(response):
    document = await response.json()
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"message", "type", "param", "code"}
    return document["error"]


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/v1/chat/completions", "/v1/embeddings", "/v1/chat/completions/", "/v1/abort_request"]
)
async def test_other_paths_never_reach_the_engine(gateway, path):
    async with gateway.client.post(path, json={"rid": ""}) as response:
        assert response.status == 404
        error = await error_of(response)
    assert error["code"] == "unknown_url"
    assert "/v1/chat/completions" in error["message"]
    assert not gateway.engine.record.calls
    assert not gateway.engine.record.aborts


@pytest.mark.parametrize("path", ["/abort_request", "/flush_cache", "/generate", "/server_info"])
async def test_the_engines_own_paths_are_closed(gateway, path):
    async with gateway.client.post(path, json={}) as response:
        assert response.status == 404


async def test_the_wrong_method(gateway):
    async with gateway.client.get("/v1/chat/completions") as response:
        assert response.status == 405
        assert response.headers["allow"] == "POST"
        assert "send POST" in (await error_of(response))["message"]
    async with gateway.client.post("/v1/models") as response:
        assert (response.status, response.headers["allow"]) == (405, "GET")


async def test_models(open_gateway):
    async with open_gateway(model_aliases=("k2",), context_length=4096) as gateway:
        document = await (await gateway.client.get("/v1/models")).json()
        assert [card["id"] for card in document["data"]] == ["kimi", "k2"]
        assert document["object"] == "list"
        card = await (await gateway.client.get("/v1/models/k2")).json()
        assert card == document["data"][1]
        assert (card["max_model_len"], card["root"], card["object"]) == (4096, "kimi", "model")
        assert card["modality"] == ["text", "image"]
        async with gateway.client.get("/v1/models/other") as response:
            assert response.status == 404
            assert (await error_of(response))["code"] == "model_not_found"


async def test_an_alias_is_served_and_counted_under_the_models_name(open_gateway):
    async with open_gateway(model_aliases=("k2",)) as gateway:
        async with gateway.post(stream=False, model="k2") as response:
            assert (await response.json())["model"] == "k2"
        assert await gateway.metric("requests_total", model="kimi") == 1


async def test_a_bad_body_is_refused_before_the_engine_is_asked(gateway):
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "hologram"}]}]
    async with gateway.post(messages=messages) as response:
        assert response.status == 400
        error = await error_of(response)
    assert error["param"] == "messages[1].content[0].type"
    assert '"hologram"' in error["message"]
    async with gateway.client.post("/v1/chat/completions", data=b"{") as response:
        assert (response.status, (await error_of(response))["code"]) == (400, "invalid_json")
    assert not gateway.engine.record.calls
    assert await gateway.metric("rejected_total", reason="invalid_request") == 2
    assert await gateway.metric("responses_total", code="400") == 2
    assert await gateway.metric("requests_total") == 2


async def test_a_body_over_the_limit(open_gateway):
    async with open_gateway(max_body_bytes=1000) as gateway:
        async with gateway.post(pad="x" * 1000) as response:
            assert response.status == 413
            assert "max_body_bytes" in (await error_of(response))["message"]
        async with gateway.post(stream=False) as response:
            assert response.status == 200


async def test_a_compressed_body_is_refused(gateway):
    headers = {"Content-Encoding": "gzip"}
    async with gateway.client.post("/v1/chat/completions", data=b"x", headers=headers) as response:
        assert response.status == 415
        assert '"gzip"' in (await error_of(response))["message"]


async def test_cardinality_is_bounded(gateway):
    async def series():
        return len((await (await gateway.client.get("/metrics")).text()).splitlines())

    async def mistakes(tag):
        for i in range(250):
            await gateway.post(model=f"gpt-{tag}-{i}", user=f"user-{tag}-{i}")
            await gateway.client.post(f"/v1/path-{tag}-{i}")
            await gateway.client.get(f"/v1/models/model-{tag}-{i}")
            await (await gateway.post(rid=f"rid-{tag}-{i}", user=f"user-{tag}-{i}", sim={"accepted": [1]})).read()

    await mistakes("a")
    first = await series()
    await mistakes("b")
    assert await series() == first
    text = await (await gateway.client.get("/metrics")).text()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    words = ("gpt-", "user-", "path-", "rid-", "model-a", "/v1")
    assert not [line for line in samples if any(word in line for word in words)]
    assert len(text) < 200_000
    assert await gateway.metric("rejected_total", reason="model_not_found") == 1000
