"""Metrics read from a served page, summed by name, label and value."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from k25serve.bench.gpu.scrape import scrape
from k25serve.bench.gpu.speed import STEP, _steps

PAGE = """# TYPE {step} histogram
{step}_bucket{{mode="decode",le="+Inf"}} {decodes}
{step}_count{{mode="decode"}} {decodes}
{step}_sum{{mode="decode"}} {seconds}
{step}_bucket{{mode="extend",le="+Inf"}} 3
{step}_count{{mode="extend"}} 3
{step}_sum{{mode="extend"}} 0.3
"""


@pytest.fixture
def served() -> Iterator[tuple[str, list[str]]]:
    pages: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(pages[-1].encode())

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", pages
    server.shutdown()
    thread.join()
    server.server_close()


def test_steps_are_what_came_between_two_scrapes(served: tuple[str, list[str]]) -> None:
    url, pages = served
    pages.append(PAGE.format(step=STEP, decodes=10, seconds=1.0))
    before = scrape(url)
    assert before.total(f"{STEP}_count") == 13
    pages.append(PAGE.format(step=STEP, decodes=14, seconds=1.02))
    found = _steps(before, scrape(url))
    assert found.keys() == {"decode"}, "a mode without a step since is left out"
    assert found["decode"]["steps"] == 4
    assert found["decode"]["mean_us"] == pytest.approx(5000)


def test_no_answer_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="refused"):
        scrape("http://127.0.0.1:9")
