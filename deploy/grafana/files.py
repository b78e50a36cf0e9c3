"""The files that put the dashboards into a Grafana. Without Grafana's library: the JSON is made beforehand."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from k25serve.server.config.shown import shown
from k25serve.server.errors import ConfigError

HERE = Path(__file__).parent
DASHBOARDS = HERE / "dashboards"
PROVISIONING = HERE / "provisioning"
# As the provisioning files have them; tests/deploy/grafana/test_files.py compares.
PROMETHEUS_URL = "http://127.0.0.1:9090"
DASHBOARDS_PATH = "/etc/k25serve/grafana/dashboards"


def grafana_files(output: Path, prometheus_url: str) -> dict[str, str]:
    """Text by path below `output`: the dashboards, and `provisioning/` that names them and the Prometheus.

    Raises ConfigError where prometheus_url is no HTTP address.
    """
    try:
        parts = urlsplit(prometheus_url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"--prometheus {shown(prometheus_url)}: {error}; use one like {PROMETHEUS_URL}") from None
    plain = prometheus_url.isprintable() and not any(character in prometheus_url for character in " \"'#")
    if parts.scheme not in ("http", "https") or not parts.netloc or not plain:
        raise ConfigError(f"--prometheus {shown(prometheus_url)}: give its address, like {PROMETHEUS_URL}")
    folder = json.dumps(str(output.absolute() / DASHBOARDS.name))  # quoted: a path may hold what YAML reads
    files = {
        f"provisioning/{path.relative_to(PROVISIONING)}": path.read_text()
        .replace(PROMETHEUS_URL, prometheus_url)
        .replace(DASHBOARDS_PATH, folder)
        for path in sorted(PROVISIONING.rglob("*.yaml"))
    }
    return files | {f"{DASHBOARDS.name}/{path.name}": path.read_text() for path in sorted(DASHBOARDS.glob("*.json"))}
