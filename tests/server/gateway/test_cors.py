import pytest

PREFLIGHT = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}


@pytest.mark.parametrize(
    ("origins", "allowed"),
    [((), None), (("https://b.example",), None), (("https://a.example",), "https://a.example"), (("*",), "*")],
)
async def test_listed_pages_may_call(open_gateway, origins, allowed):
    async with open_gateway(cors_origins=origins) as gateway:
        asked = PREFLIGHT | {"Access-Control-Request-Headers": "authorization, x-new"}
        async with gateway.client.options("/v1/chat/completions", headers=asked) as response:
            assert response.headers.get("access-control-allow-origin") == allowed
            assert response.status == (204 if origins else 405)
            if origins:
                assert response.headers["access-control-allow-headers"] == "authorization, x-new"
        for stream in (True, False):
            async with gateway.post(stream, headers={"Origin": "https://a.example"}) as response:
                assert response.status == 200
                assert response.headers.get("access-control-allow-origin") == allowed
                assert ("x-k25serve-arm" in response.headers.get("access-control-expose-headers", "")) == bool(origins)


async def test_errors_can_be_read_and_a_preflight_needs_no_key(open_gateway, make_keys):
    async with open_gateway(cors_origins=("*",), keys_file=make_keys(alice="").path) as gateway:
        async with gateway.client.options("/v1/models", headers=PREFLIGHT) as response:
            assert response.status == 204
        async with gateway.client.get("/v1/models", headers={"Origin": "https://a.example"}) as response:
            assert (response.status, response.headers["access-control-allow-origin"]) == (401, "*")
