import contextlib

import pytest

from k25serve.server.gateway.experiment import live

ARM = "x-k25serve-arm"


@pytest.fixture
def quick_sync(monkeypatch):
    monkeypatch.setattr(live, "SYNC_S", 0.02)


@pytest.fixture
def two_arms(open_gateway, make_engine, tmp_path, quick_sync):
    """A gateway with the arms `sglang` and `vllm` in an experiment, and `dark` beside it; `opened.other`, `.dark`."""

    def make(experiment=None, **settings):
        given = {"name": "x", "state": tmp_path / "ab.db", "control": "sglang", "weights": {"sglang": 1, "vllm": 1}}
        given |= experiment or {}
        other, dark = make_engine(dialect="vllm"), make_engine()

        @contextlib.asynccontextmanager
        async def opened():
            arms = [("vllm", other, {}), ("dark", dark, {})]
            async with open_gateway(others=arms, experiment=given, **settings) as gateway:
                gateway.other, gateway.dark, gateway.state = other, dark, given["state"]
                yield gateway

        return opened()

    return make


@pytest.fixture
def ask():
    """A whole request; its status and the arm that answered."""

    async def one(gateway, user="u", stream=True, headers=None, **fields):
        async with gateway.post(stream, user=user, headers=headers, **fields) as response:
            await response.read()
            return response.status, response.headers.get(ARM)

    return one
