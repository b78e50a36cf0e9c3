"""Profile -> Prometheus's configuration and rules. The rules beside this file are as Prometheus reads them."""

from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from k25serve.server.config import Profile
from k25serve.server.config.shown import shown
from k25serve.server.errors import ConfigError
from k25serve.server.serve import gateway_settings, gateway_url

RULES = Path(__file__).parent / "rules"
RULES_FOLDER = "k25serve"
GATEWAY_JOB, ENGINE_JOB = "k25serve-gateway", "k25serve-engine"
ENGINES_WITH_METRICS = ("sglang", "vllm")
RUNBOOK = "RUNBOOK.md"
CONFIG = "prometheus.yml"
# Names with a colon lose it where prometheus_client answers in OpenMetrics (0.26, asked by Prometheus 2: `sglang_x`).
COLON_BACK = {
    "source_labels": ["__name__"],
    "regex": f"({'|'.join(ENGINES_WITH_METRICS)})_(.+)",
    "target_label": "__name__",
    "replacement": "${1}:${2}",
}
MADE = "# Made by `k25serve deploy prometheus`"
LEAST_SCRAPES = 4  # in the rules' 5 minutes: a rate needs two, and a scrape may fail
WINDOW_S = 300
# As the rules have them; tests/deploy/prometheus/test_render.py compares.
ACCEPT_FLOOR = "vector(1.3)"
PATIENCE = "for: 125m"
AFTER_THE_LOAD_MIN = 5


def prometheus_files(profile: Profile, *, interval_s: int, runbook: str) -> dict[str, str]:
    """Text by path: `prometheus.yml`, and the rules in a folder that it names.

    interval_s: seconds between scrapes. runbook: what the alerts' links begin with.
    Raises ConfigError for an interval that the rules' window can't hold and for a runbook that is no link.
    """
    if not 1 <= interval_s <= WINDOW_S // LEAST_SCRAPES:
        raise ConfigError(
            f"--interval {interval_s}: use 1 to {WINDOW_S // LEAST_SCRAPES} seconds; the rules look {WINDOW_S} s back"
        )
    if not runbook.isprintable() or any(character in runbook for character in " #\"'") or not runbook:
        raise ConfigError(f"--runbook {shown(runbook)}: give a URL or a path, without spaces, quotes or #")
    config = {
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": [f"{RULES_FOLDER}/*.yaml"],
        "scrape_configs": [
            {"job_name": GATEWAY_JOB, "static_configs": [_target(gateway_url(profile), {})]},
            {
                "job_name": ENGINE_JOB,
                "static_configs": _engines(profile),
                "metric_relabel_configs": [COLON_BACK],
            },
        ],
    }
    patience = f"for: {ceil(profile.engine.ready_timeout_s / 60) + AFTER_THE_LOAD_MIN}m"
    replaced = {
        "alerts": {f"{RUNBOOK}#": f"{runbook}#", PATIENCE: patience},
        "limits": {ACCEPT_FLOOR: f"vector({profile.gate.accept_floor!r})"},
        "recording": {},
    }
    files = {CONFIG: f"{MADE} from the profile {profile.name}.\n" + yaml.safe_dump(config, sort_keys=False)}
    return files | {f"{RULES_FOLDER}/{name}.yaml": _rules(name, changes) for name, changes in replaced.items()}


def check_folder(output: Path) -> None:
    """Raises ConfigError where `output` has a Prometheus configuration that is not ours to replace."""
    config = output / CONFIG
    if config.exists() and not config.read_bytes().startswith(MADE.encode()):
        raise ConfigError(
            f"--output {output}: {config} was not made by this command and would be lost; give another folder and take "
            "rule_files and scrape_configs over from there"
        )


def _rules(name: str, changes: dict[str, str]) -> str:
    text = (RULES / f"{name}.yaml").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def _engines(profile: Profile) -> list[dict[str, Any]]:
    """An arm of another dialect has no known metrics: the gateway's are all there is of it."""
    return [
        _target(arm.url, {"arm": arm.name})
        for arm in gateway_settings(profile).every_arm
        if arm.dialect in ENGINES_WITH_METRICS
    ]


def _target(url: str, labels: dict[str, str]) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme == "https":
        labels = labels | {"__scheme__": "https"}
    return {"targets": [parts.netloc]} | ({"labels": labels} if labels else {})
