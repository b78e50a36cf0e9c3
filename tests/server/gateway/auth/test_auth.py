import itertools
import os
import re
import signal

import pytest
from command_line.call import call

from k25serve.server.errors import ConfigError
from k25serve.server.gateway.auth.exposure import check_exposure
from k25serve.server.gateway.auth.keys import Caller, read_keys

PATHS = [("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("POST", "/v1/nothing")]


async def test_without_a_known_key_nothing_under_v1_answers(open_gateway, make_keys):
    wrong = [{}, *({"Authorization": value} for value in ("Bearer wrong", "Basic x", "Bearer "))]
    async with open_gateway(keys_file=make_keys(alice="").path) as gateway:
        for headers, (method, path) in itertools.product(wrong, PATHS):
            async with gateway.client.request(method, path, headers=headers) as response:
                assert response.status == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert (await response.json())["error"]["type"] == "authentication_error"
        assert await gateway.metric("rejected_total", reason="unauthorized") == len(wrong) * len(PATHS)
        assert not gateway.engine.record.calls
        for open_path in ("/live", "/ready"):
            async with gateway.client.get(open_path) as response:
                assert response.status == 200


async def test_a_known_key_passes_and_stays_here(open_gateway, make_keys):
    keys = make_keys(alice="")
    async with open_gateway(keys_file=keys.path) as gateway:
        async with gateway.post(False, headers=keys.header("alice")) as response:
            assert response.status == 200
        assert "authorization" not in gateway.engine.record.calls[-1].headers
        text = await (await gateway.client.get("/metrics")).text()
        assert "alice" not in text


async def test_hangup_reads_the_keys_again_and_a_broken_file_changes_nothing(open_gateway, make_keys, caplog):
    keys, later = make_keys(alice=""), make_keys(bob="")

    async def status(key):
        async with gateway.post(False, headers=key) as response:
            return response.status

    async with open_gateway(keys_file=keys.path) as gateway:
        for content, alice, bob in [
            (later.path.read_text(), 401, 200),
            ("broken", 401, 200),
            (keys.path.read_text(), 200, 401),
        ]:
            keys.path.write_text(content)
            os.kill(os.getpid(), signal.SIGHUP)
            for _ in range(50):
                if await status(keys.header("alice")) == alice:
                    break
            assert await status(keys.header("alice")) == alice
            assert await status(later.header("bob")) == bob
    assert "old keys stay in force" in caplog.text


def test_rights(make_keys):
    keys = make_keys(alice="max_concurrency=3", ops="staff # comment")
    read = read_keys(keys.path)
    assert read.caller(keys.key("alice")) == Caller("alice", False, 3)
    assert read.caller(keys.key("ops")) == Caller("ops", True, None)
    assert read.caller("") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no key"),
        ("alice plain-text-key", "64 hex digits"),
        ("alice sha256:" + "0" * 63, "64 hex digits"),
        ("alice sha256:" + "0" * 64 + " admin", "no right"),
        ("a sha256:" + "0" * 64 + "\nb sha256:" + "0" * 64, "there already"),
        ("a sha256:" + "0" * 64 + "\na sha256:" + "1" * 64, "there already"),
    ],
)
def test_mistakes_in_the_file(tmp_path, text, said):
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        read_keys(file)
    assert "plain-text-key" not in str(caught.value)
    with pytest.raises(ConfigError, match="can't be read"):
        read_keys(tmp_path / "none")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "gateway.example"])
def test_strangers_are_not_let_in_by_default(host, tmp_path):
    with pytest.raises(ConfigError, match="keys_file"):
        check_exposure(host, None, allow_unauthenticated=False)
    check_exposure(host, tmp_path, allow_unauthenticated=False)
    check_exposure(host, None, allow_unauthenticated=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_keys(host):
    check_exposure(host, None, allow_unauthenticated=False)


def test_the_command_makes_a_key_that_its_line_knows(tmp_path):
    key, line = re.findall(r": (.+)", call("key", "alice", "--staff").stdout)
    file = tmp_path / "keys"
    file.write_text(line)
    assert read_keys(file).caller(key) == Caller("alice", staff=True)
