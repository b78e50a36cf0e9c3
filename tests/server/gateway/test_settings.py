import pytest
from pydantic import ValidationError

from k25serve.server.gateway.settings import GatewaySettings

ARM = {"name": "a", "url": "http://127.0.0.1:1"}


def test_names_and_defaults():
    settings = GatewaySettings(upstream="http://127.0.0.1:30000/", served_model_name="k", model_aliases=("a",))
    assert settings.upstream == "http://127.0.0.1:30000"
    assert settings.model_names == ("k", "a")
    (arm,) = settings.every_arm
    assert (arm.name, arm.url, arm.dialect, arm.weight) == ("sglang", "http://127.0.0.1:30000", "sglang", 1.0)
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
        ({"upstream": None}, "give either upstream or arms"),
        ({"arms": [ARM]}, "give either upstream or arms"),
        ({"upstream": None, "arms": [ARM, ARM]}, "give each arm its own"),
        ({"upstream": None, "arms": [ARM | {"weight": 0}]}, "weight is 0"),
        ({"upstream": None, "arms": [ARM | {"name": "a b"}]}, "should match pattern"),
        ({"upstream": None, "arms": [ARM | {"url": "http://127.0.0.1:1/v1"}]}, "without '/v1'"),
    ],
)
def test_mistakes_are_told(fields, said):
    with pytest.raises(ValidationError, match=said.replace("(", r"\(")):
        GatewaySettings(**{"upstream": "http://127.0.0.1:1", "served_model_name": "k"} | fields)
