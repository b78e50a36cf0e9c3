"""A real Prometheus, a gateway, a simulated engine: acceptance falls and the alert fires; it recovers and it stops."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.stack import free_ports
from observing.server import Prometheus, running, until
from observing.stack import MODEL, gateway, simulated_vllm

from k25serve.deploy.prometheus.render import prometheus_files
from k25serve.server.config import load_profile

ALERT = "K25AcceptanceCollapsed"
STEPS = 60
LIMIT_S = 20


def faster(text: str) -> str:
    """The same rules, looking back 2 s in the place of 5 minutes and waiting 1 s in the place of 10 minutes."""
    assert "[5m]" in text or "for: 10m" in text or "k25-limits" in text
    return text.replace("[5m]", "[2s]").replace("for: 10m", "for: 1s")


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[tuple[str, Prometheus]]:
    """URL of the gateway, and the Prometheus that scrapes it and the engine every 0.2 s."""
    (no_engine,) = free_ports(1)
    with (
        simulated_vllm(tmp_path, "--prefill-s", "0", "--step-s", "0.001") as engine,
        gateway(tmp_path, no_engine, [{"name": "vllm", "url": engine, "dialect": "vllm"}]) as (url, profile),
    ):
        for name, text in prometheus_files(load_profile(str(profile)), interval_s=1, runbook="RUNBOOK.md").items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(faster(text) if name.startswith("k25serve/") else text.replace("1s", "200ms"))
        with running(tmp_path / "prometheus.yml", tmp_path / "data") as prometheus:
            yield url, prometheus


def ask(url: str, accepted: int) -> None:
    """One answer whose verify steps each accept `accepted` draft tokens."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": STEPS * 5,
        "sim": {"accepted": [accepted] * STEPS},
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_acceptance_falls(observed: tuple[str, Prometheus]) -> None:
    url, prometheus = observed

    def accept_length(accepted: int) -> list[float]:
        ask(url, accepted)
        return [round(value, 2) for value in prometheus.values("k25:accept_length:rate5m")]

    def state(accepted: int) -> str:
        ask(url, accepted)
        return prometheus.alert_state(ALERT)

    until(lambda: accept_length(3) == [4.0], LIMIT_S, lambda: prometheus.get("targets")["activeTargets"])
    assert prometheus.alert_state(ALERT) == "inactive"
    until(lambda: state(0) == "pending", LIMIT_S)
    until(lambda: state(0) == "firing", LIMIT_S)
    (alert,) = (one for one in prometheus.get("alerts")["alerts"] if one["labels"]["alertname"] == ALERT)
    assert alert["labels"] == {"alertname": ALERT, "arm": "vllm", "severity": "warning"}
    assert alert["annotations"]["summary"].startswith("vllm: 1.")
    assert float(alert["value"]) < 1.3
    until(lambda: state(3) == "inactive", LIMIT_S)
