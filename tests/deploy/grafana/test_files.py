"""The files that put the dashboards into a Grafana."""

from pathlib import Path

import pytest
import yaml

from k25serve.deploy.grafana.files import DASHBOARDS, DASHBOARDS_PATH, PROMETHEUS_URL, PROVISIONING, grafana_files
from k25serve.server.errors import ConfigError


def test_provisioning_names_the_prometheus_and_the_folder(tmp_path: Path) -> None:
    output = tmp_path / "a: b"
    files = grafana_files(output, "https://prometheus.example:9443/p")
    (source,) = yaml.safe_load(files["provisioning/datasources/k25serve.yaml"])["datasources"]
    assert source["url"] == "https://prometheus.example:9443/p"
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load(files["provisioning/dashboards/k25serve.yaml"])["providers"]
    assert provider["options"]["path"] == str(output / "dashboards")
    assert {name for name in files if name.startswith("dashboards/")} == {
        f"dashboards/{path.name}" for path in DASHBOARDS.iterdir()
    }


def test_the_files_have_what_is_replaced() -> None:
    """Else a caller's choice would be lost without a word."""
    assert PROMETHEUS_URL in (PROVISIONING / "datasources" / "k25serve.yaml").read_text()
    assert DASHBOARDS_PATH in (PROVISIONING / "dashboards" / "k25serve.yaml").read_text()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:9090",
        "ftp://x",
        "http://",
        "http://a b",
        "http://x\ny",
        'http://"',
        "http://[::1",
        "http://a:99999",
    ],
)
def test_no_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="--prometheus"):
        grafana_files(tmp_path, url)
