"""The reverse-proxy example under the real nginx: streams pass as they come, refusals whole, big bodies too."""

import asyncio
import getpass
import io
import itertools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimSettings
from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.run import serve
from k25serve.server.gateway.settings import GatewaySettings

EXAMPLE = Path(__file__).parents[2] / "deploy" / "nginx" / "k25serve.conf"
STEP_S = 0.25
# Around the example: what Debian's nginx.conf has, without an account and a system's paths.
AROUND = """daemon off;
user {user};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    gzip on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/k25serve.conf;
}}
"""


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "kimi", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, **fields}


@asynccontextmanager
async def proxied(folder: Path, *, ready: bool = True, **changes: str) -> AsyncIterator[tuple[str, SimEngine]]:
    """engine_sim, gateway, nginx with the example. changes: text of the example in the place of other text."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        missing = "nginx is missing: apt-get install nginx-light"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    engine = SimEngine(SimSettings(prefill_s=0.0, step_s=STEP_S, step_cv=0.0, served_model_name="kimi"))
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    readiness = Readiness()
    if ready:
        readiness.set_ready()
    async with running(engine) as engine_url:
        arm = ArmSettings(name="sglang", url=engine_url)
        app = create_app(
            GatewaySettings(served_model_name="kimi", arms=(arm,)), readiness, registry=CollectorRegistry()
        )
        serving = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result, drain_s=1))
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = free.getsockname()[1]
        made = make_certificate(folder)
        replaced = {
            "127.0.0.1:8000": f"127.0.0.1:{await port}",
            "listen 443 ssl": f"listen 127.0.0.1:{own} ssl",
            "/etc/ssl/certs/kimi.pem": str(made),
            "/etc/ssl/private/kimi.key": str(made),
            **{old: new for old, new in changes.items()},
        }
        text = EXAMPLE.read_text()
        for old, new in replaced.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / "k25serve.conf").write_text(text)
        (folder / "nginx.conf").write_text(AROUND.format(folder=folder, user=getpass.getuser()))
        process = started(nginx, folder)
        try:
            await listening(process, own)
            yield f"https://127.0.0.1:{own}", engine
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def make_certificate(folder: Path) -> Path:
    path = folder / "both.pem"
    subject = ("-nodes", "-subj", "/CN=localhost", "-days", "1", "-newkey", "rsa:2048")
    files = ("-keyout", str(path), "-out", str(folder / "cert.pem"))
    subprocess.run(["openssl", "req", "-x509", *subject, *files], check=True, capture_output=True)
    path.write_text(path.read_text() + (folder / "cert.pem").read_text())
    return path


def started(nginx: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")])


async def listening(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        assert process.poll() is None
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
            continue
        writer.close()
        return


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


async def arrivals(url: str) -> list[float]:
    """Seconds between the chunks of one stream, as the client gets them."""
    async with client() as session, session.post(f"{url}/v1/chat/completions", json=body(stream=True)) as answer:
        assert answer.status == 200
        times = []
        async for line in answer.content:
            if line.startswith(b"data: "):
                times.append(time.monotonic())
    return [later - earlier for earlier, later in itertools.pairwise(times)]


async def test_each_chunk_arrives_at_once(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (url, _):
        gaps = await arrivals(url)
    assert sum(gap > STEP_S / 2 for gap in gaps) >= 2, gaps


async def test_the_setting_is_what_does_it(tmp_path: Path) -> None:
    """Buffered, the same stream comes in one piece: the test above can fail. The gateway asks for no buffering too."""
    buffered = "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering"
    async with proxied(tmp_path, **{"proxy_buffering off": buffered}) as (url, _):
        gaps = await arrivals(url)
    assert max(gaps) < STEP_S / 2, gaps


async def test_a_client_that_leaves_is_seen_by_the_engine(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (url, engine), client() as session:
        answer = await session.post(f"{url}/v1/chat/completions", json=body(stream=True, max_tokens=400))
        await answer.content.readany()
        answer.close()
        deadline = time.monotonic() + 5
        while not engine.record.aborts:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_refusals_come_whole(tmp_path: Path) -> None:
    async with proxied(tmp_path, ready=False) as (url, _), client() as session:
        async with session.post(f"{url}/v1/chat/completions", json=body()) as answer:
            assert answer.status == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert "error" in await answer.json()
        async with session.get(f"{url}/ready") as ready, session.get(f"{url}/metrics") as metrics:
            assert ready.status == 503
            assert metrics.status == 404


async def test_an_image_of_32_mib_passes(tmp_path: Path) -> None:
    uri = "data:image/png;base64," + "A" * (32 * 2**20 // 3 * 4)
    content = [{"type": "image_url", "image_url": {"url": uri}}]
    async with proxied(tmp_path) as (url, _), client() as session:
        big = body(messages=[{"role": "user", "content": content}], max_tokens=1)
        sent, headers = io.BytesIO(json.dumps(big).encode()), {"content-type": "application/json"}
        async with session.post(f"{url}/v1/chat/completions", data=sent, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
