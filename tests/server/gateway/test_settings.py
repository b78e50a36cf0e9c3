import pytest
from pydantic import ValidationError

from k25serve.server.gateway.settings import GatewaySettings


def test_names_and_defaults():
    settings = GatewaySettings(upstream="http://127.0.0.1:30000/", served_model_name="k", model_aliases=("a",))
    assert settings.upstream == "http://127.0.0.1:30000"
    assert settings.model_names == ("k", "a")
    with pytest.raises(ValidationError):
        settings.upstream = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"upstream": "http://127.0.0.1:30000/v1"}, "without '/v1'"),
        ({"upstream": "127.0.0.1:30000"}, "give a URL like"),
        ({"upstream": "ftp://x"}, "give a URL like"),
        ({"model_aliases": ("a:b",)}, "without ':'"),
        ({"served_model_name": ""}, "at least 1 character"),
        ({"idle_timeout_s": 0}, "greater than 0"),
        ({"idle_timout_s": 1}, "Extra inputs"),
    ],
)
def test_mistakes_are_told(fields, said):
    with pytest.raises(ValidationError, match=said.replace("(", r"\(")):
        GatewaySettings(**{"upstream": "http://127.0.0.1:1", "served_model_name": "k"} | fields)
