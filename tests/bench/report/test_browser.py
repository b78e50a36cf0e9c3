"""The page in headless Chromium: it renders, says nothing on the console, and asks for nothing."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from report_files.make import ab_data, cell, comparison, load_data, result, speed_data
from report_files.read import Page

from k25serve.bench.report import html
from k25serve.bench.report.build import build
from k25serve.bench.report.campaign import load_campaign
from k25serve.bench.report.sources import read_sources

DARK, LIGHT = 0, 1  # Chromium's preferredColorScheme
Browse = Callable[..., "tuple[str, list[str]]"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("results")
    result(folder, "load", load_data(cell(1, 82.5), cell(8, 320.0)))
    result(folder, "ab", ab_data(comparison(1, (80.0, 81.0), (99.0, 101.0))))
    result(folder, "gpu-speed", speed_data())
    return html.render(build(read_sources([folder]), load_campaign(None), "a report"))


@pytest.fixture
def served() -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """URL, pages by path, and the paths that were asked for."""
    pages: dict[str, str] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", pages, asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Open a URL; its DOM as text after loading, and what the console said."""
    chromium = shutil.which("chromium")
    if chromium is None:
        missing = "chromium is missing: apt-get install chromium"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)

    def run(url: str, *options: str) -> tuple[str, list[str]]:
        done = subprocess.run(
            [
                chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=3000",
                "--window-size=1000,900", *(options or ("--dump-dom",)), url,
            ],
            capture_output=True, text=True, timeout=90, check=True,
        )  # fmt: skip
        return done.stdout, [line for line in done.stderr.splitlines() if re.search(r"CONSOLE[:(\]]", line)]

    return run


def test_it_renders_and_asks_for_nothing(
    text: str, served: tuple[str, dict[str, str], list[str]], browse: Browse
) -> None:
    url, pages, asked = served
    pages["/"] = text
    dom, console = browse(f"{url}/")
    assert console == []
    assert asked == ["/"]
    page = Page(dom)
    assert page.headings[0] == "Targets"
    assert page.headings[-1] == "Provenance"
    assert ["4", "2,286", "2,696"] in page.rows()
    assert page.tags.count("polyline") >= 10


def test_what_would_leave_is_held_back(
    text: str, served: tuple[str, dict[str, str], list[str]], browse: Browse
) -> None:
    """The policy holds, and the test above would see a request and a complaint."""
    url, pages, asked = served
    planted = f'<img src="{url}/planted.png"><script>document.title = "ran"</script></body>'
    pages["/"] = text.replace("</body>", planted)
    dom, console = browse(f"{url}/")
    assert asked == ["/"]
    assert len(console) >= 2
    assert "<title>a report</title>" in dom
    pages["/"] = re.sub(r"<meta http-equiv[^>]*>", "", pages["/"])
    browse(f"{url}/")
    assert "/planted.png" in asked


def test_light_and_dark(tmp_path: Path, text: str, browse: Browse) -> None:
    image = pytest.importorskip("PIL.Image")
    file = tmp_path / "r.html"
    file.write_text(text)
    corner = {}
    for scheme in (DARK, LIGHT):
        shot = tmp_path / f"{scheme}.png"
        browse(file.as_uri(), f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
        with image.open(shot) as picture:
            assert len(picture.convert("RGB").getcolors(2**24)) > 50  # something is drawn
            corner[scheme] = sum(picture.convert("RGB").getpixel((2, 2)))
    assert corner[DARK] < 150 < 700 < corner[LIGHT]
