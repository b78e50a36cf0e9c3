"""Mistakes are told in one line, before anything is started."""

import io
import stat

import pytest
from rich.console import Console

from k25serve.server import serve
from k25serve.server.config import load_profile
from k25serve.server.errors import ConfigError
from k25serve.server.gateway.conversations.directory import prepare_directory


def load(*overrides):
    overrides = [f"gateway.conversation_log.{item}" if not item.startswith("gateway") else item for item in overrides]
    return load_profile("cpu-tiny", overrides, need_models=False)


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["directory=/x", "sample=1.5"],
            "gateway.conversation_log.sample = 1.5: input should be less than or equal to 1",
        ),
        (
            ["directory=/x", "sample=-0.1"],
            "gateway.conversation_log.sample = -0.1: input should be greater than or equal",
        ),
        (["directory=/x", "max_bytes=0"], "gateway.conversation_log.max_bytes = 0: input should be greater than 0"),
        (["directory=/x", "folder=/y"], "unknown key 'gateway.conversation_log.folder'"),
        (["sample=1"], "key 'gateway.conversation_log.directory' is missing; add it"),
        (
            ["directory=/x", "keep=4", "gateway.workers=4"],
            "conversation_log.keep is 4 and workers 4, each of which writes a file: keep at least 5",
        ),
    ],
)
def test_values_that_cannot_be(overrides, told):
    with pytest.raises(ConfigError) as error:
        serve.gateway_settings(load(*overrides))
    assert told in one_line(error)


def test_a_new_folder_is_the_owners(tmp_path):
    folder = tmp_path / "a" / "b"
    prepare_directory(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == []
    prepare_directory(folder)


@pytest.mark.parametrize("name", ["file/below", "/proc/k25serve", "nul\0", "x" * 300])
async def test_a_folder_that_cannot_be_made(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError) as error:
        prepare_directory(tmp_path / name)
    assert "gateway.conversation_log.directory" in one_line(error)
    assert "name a folder of the gateway's account" in one_line(error)


async def test_a_folder_that_others_look_into_stops_the_start(tmp_path):
    tmp_path.chmod(0o755)
    profile = load(f"directory={tmp_path}", "gateway.port=31219")
    with pytest.raises(ConfigError) as error:
        await serve.serve_gateway(profile, Console())
    assert "other accounts may look into it (mode 755); chmod 700 it" in one_line(error)


@pytest.mark.parametrize(("sample", "share"), [("1", ""), ("0.05", " (5.00% of them)")])
async def test_a_start_says_where_they_are_recorded(tmp_path, monkeypatch, sample, share):
    async def stopped(*_):
        pass

    monkeypatch.setattr(serve, "_until_stopped", stopped)
    folder, said = tmp_path / "log", io.StringIO()
    monkeypatch.setattr(serve, "_true", lambda: None)
    profile = load(f"directory={folder}", f"sample={sample}", "gateway.port=31219")
    await serve.serve_gateway(profile, Console(file=said, width=500))
    assert f"conversations are recorded{share}, in plain text: {folder}\n" in said.getvalue()
