import contextlib
import json

import pytest

from k25serve.server.gateway.conversations.files import LogFiles


def lines(folder):
    """Every conversation in the folder's files, which have to hold whole lines."""
    files = sorted(folder.glob("*.jsonl")) if folder.exists() else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def recording(open_gateway, folder):
    """A gateway that records. Once it is closed, everything is written."""

    @contextlib.asynccontextmanager
    async def make(engine=None, log=None, **settings):
        given = {"directory": folder, **(log or {})}
        async with open_gateway(engine, conversation_log=given, **settings) as gateway:
            yield gateway

    return make


@pytest.fixture
def read(folder):
    return lambda: lines(folder)


@pytest.fixture
def log_files(folder):
    folder.mkdir(mode=0o700)
    return lambda max_bytes=2**20, keep=8: LogFiles(folder, max_bytes, keep)
