import pytest

from k25serve.bench.load.endpoint import resolve
from k25serve.server.errors import UserError


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000"),
        ("http://h:8000/proxy/v1", "http://h:8000/proxy"),
        ("http://h:8000/v10", "http://h:8000/v10"),
        ("http://h:8000/v1/chat/completions", "http://h:8000"),
        ("https://h/proxy/v1/chat/completions/", "https://h/proxy"),
        ("http://[::1]:30000/v1", "http://[::1]:30000"),
    ],
)
def test_every_spelling_ends_in_one_v1(given: str, root: str) -> None:
    assert resolve(given).chat == f"{root}/v1/chat/completions"
    assert resolve(given).models == f"{root}/v1/models"


@pytest.mark.parametrize(
    "given",
    [
        "h:8000",
        "",
        "ftp://h",
        "http://",
        "http://h:99999",
        "http://h/v1/v1",
        "http://h/v1/v1/chat/completions",
        "http://h/v1/completions",
        "http://h/chat/completions",
        "http://h/v1?key=x",
        "http://user@h/v1",
    ],
)
def test_anything_else_is_refused_with_the_option(given: str) -> None:
    with pytest.raises(UserError, match=r"^--a "):
        resolve(given, "--a")


def test_energy_is_read_here_only_for_an_engine_here() -> None:
    assert resolve("http://127.0.0.1:1").is_local
    assert not resolve("http://10.0.0.1:1").is_local
