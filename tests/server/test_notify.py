"""What the service manager is told, and the answer where there is none."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from k25serve.server.errors import ConfigError
from k25serve.server.notify import notify, status


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@k25serve-test-{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address.replace("@", "\0", 1))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield listener


def test_words_and_one_line(manager: socket.socket) -> None:
    notify("READY=1", "STATUS=serving")
    assert manager.recv(4096) == b"READY=1\nSTATUS=serving"
    status("the engine ended\n    a line of its log")
    assert manager.recv(4096) == rb"STATUS=the engine ended\n    a line of its log"


def test_no_manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"NOTIFY_SOCKET .*gone: No such file or directory; unset it"):
        notify("READY=1")
