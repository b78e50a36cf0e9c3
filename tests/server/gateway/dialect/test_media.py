import pytest

from k25serve.server.gateway.dialect.media import check_media
from k25serve.server.gateway.errors import InvalidRequestError
from k25serve.server.gateway.settings import GatewaySettings


def settings(**fields):
    return GatewaySettings(upstream="http://127.0.0.1:1", served_model_name="k", **fields)


def body(url, kind="image_url"):
    return {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": kind, kind: {"url": url}}]}]
    }


REMOTE = settings(remote_media_hosts=("images.example",))


@pytest.mark.parametrize("url", ["data:image/png;base64,AA==", "DATA:,x"])
def test_data_passes(url):
    check_media(body(url), settings())


@pytest.mark.parametrize("url", ["https://images.example/a.png", "http://IMAGES.example:8080/a"])
def test_listed_hosts_pass(url):
    check_media(body(url), REMOTE)


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/a.png",
        "http://169.254.169.254/latest/meta-data",
        "http://images.example@127.0.0.1/a",
        "http://127.0.0.1\\@images.example/a",
        "http://images.example.evil.example/a",
        "file:///etc/passwd",
        "/etc/passwd",
        "http://[::1",
        "iVBORw0KGgo=",
        "",
    ],
)
@pytest.mark.parametrize("kind", ["image_url", "video_url", "audio_url"])
def test_everything_else_is_refused(url, kind):
    with pytest.raises(InvalidRequestError) as caught:
        check_media(body(url, kind), REMOTE)
    assert caught.value.param == f"messages[0].content[1].{kind}.url"


def test_size_is_that_of_the_image():
    check_media(body("data:image/png;base64," + "A" * 1336), settings(max_image_bytes=1002))
    with pytest.raises(InvalidRequestError, match="send at most 1001"):
        check_media(body("data:image/png;base64," + "A" * 1336), settings(max_image_bytes=1001))


def test_a_model_without_eyes():
    with pytest.raises(InvalidRequestError, match="takes no images"):
        check_media(body("data:,x"), settings(modalities=("text",)))
