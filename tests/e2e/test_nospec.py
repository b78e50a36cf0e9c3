"""No speculation: exact too; and what is left when the launcher is killed: nothing."""

import os
import signal
import socket
from collections.abc import Iterator

import pytest
import torch
from e2e import parity
from e2e.pages import ENGINE, settled
from e2e.stack import Served, boot, running, wait_gone

from k25serve.patches.hooks.step_seconds import MODES

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def nospec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("nospec")
    with boot(folder, "serve", "-p", "cpu-tiny-nospec", "--set", "engine.dtype=float32") as served:
        yield served


async def test_greedy_equals_transformers_in_fp32(nospec: Served) -> None:
    outputs, infos = await parity.engine_outputs(nospec.engine_url)
    assert outputs == parity.reference(torch.float32)
    assert not any(info.get("spec_verify_ct") for info in infos)


async def test_decode_steps_are_timed(nospec: Served) -> None:
    now = await settled(nospec)
    counts = {mode: now[f'{ENGINE}_step_seconds_count{{mode="{mode}"}}'] for mode in MODES}
    assert counts.pop("decode") >= parity.NEW_TOKENS
    assert counts.pop("extend") >= 1
    assert set(counts.values()) == {0}


def test_sigkill_of_the_launcher_leaves_nothing(nospec: Served) -> None:
    """Last in this file: the engine is gone after it."""
    processes = nospec.processes
    assert len(running(processes)) >= 4  # launcher, guardian, SGLang's main process and its children
    os.kill(nospec.launcher.pid, signal.SIGKILL)
    nospec.launcher.wait(10)
    wait_gone(processes, 60)
    for url in (nospec.engine_url, nospec.gateway_url):
        with socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))):
            pass
