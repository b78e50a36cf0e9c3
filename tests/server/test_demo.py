"""What the demo chooses and prints; that it answers is tested on the real engine."""

import json
import shlex
from importlib.metadata import PackageNotFoundError

import pytest

from k25serve.server import demo
from k25serve.server.config import load_profile


@pytest.mark.parametrize(
    ("has_kernels", "gpus", "expected"),
    [(False, [10**9], "cpu-tiny"), (True, [], "cpu-tiny"), (True, [10**9], "gpu-tiny")],
)
def test_the_gpu_is_taken_where_it_can_be(
    monkeypatch: pytest.MonkeyPatch, has_kernels: bool, gpus: list[int], expected: str
) -> None:
    def version(name: str) -> str:
        if not has_kernels:
            raise PackageNotFoundError(name)
        return "0.4.7"

    monkeypatch.setattr(demo, "version", version)
    monkeypatch.setattr(demo, "free_gpu_bytes", lambda: gpus)
    assert demo.choose_profile() == expected


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert demo.printable("a\x1b[31mb\x00\x07\tc\nd é 修") == "a\\x1b[31mb\\x00\\x07\tc\nd é 修"


def test_curl_line_asks_the_same_question() -> None:
    profile = load_profile("cpu-tiny")
    words = shlex.split(demo.curl_line(profile, "What's 2 + 2?"))
    assert words[1] == "http://127.0.0.1:8000/v1/chat/completions"
    assert json.loads(words[-1]) == demo.question_body(profile, "What's 2 + 2?")
