"""Profile -> Prometheus's files."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from observing.server import require

from k25serve.deploy.prometheus.render import prometheus_files
from k25serve.server.config import Profile, load_profile
from k25serve.server.errors import ConfigError


def profile(*overrides: str) -> Profile:
    return load_profile("k25-int4-sm120x8", overrides, {}, need_models=False)


def files(*overrides: str, interval_s: int = 15, runbook: str = "RUNBOOK.md") -> dict[str, str]:
    return prometheus_files(profile(*overrides), interval_s=interval_s, runbook=runbook)


def jobs(**made: str) -> dict[str, list[dict[str, object]]]:
    config = yaml.safe_load(made["prometheus.yml"])
    return {job["job_name"]: job["static_configs"] for job in config["scrape_configs"]}


def test_the_profiles_own_ports() -> None:
    assert jobs(
        **files("engine.port=31000", "gateway.port=8123", "gateway.host=0.0.0.0", 'gateway.keys_file="/k"')
    ) == {
        "k25serve-gateway": [{"targets": ["127.0.0.1:8123"]}],
        "k25serve-engine": [{"targets": ["127.0.0.1:31000"], "labels": {"arm": "sglang"}}],
    }


def test_every_arm_that_shows_known_metrics() -> None:
    arms = (
        "[{name: mine}, {name: old, dialect: vllm, url: 'http://10.0.0.9:8001'},"
        " {name: far, dialect: vllm, url: 'https://far.example'}, {name: alien, dialect: openai, url: 'http://x:1'}]"
    )
    assert jobs(**files(f"gateway.arms={arms}"))["k25serve-engine"] == [
        {"targets": ["127.0.0.1:30000"], "labels": {"arm": "mine"}},
        {"targets": ["10.0.0.9:8001"], "labels": {"arm": "old"}},
        {"targets": ["far.example"], "labels": {"arm": "far", "__scheme__": "https"}},
    ]


def test_the_floor_is_the_profiles() -> None:
    limits = yaml.safe_load(files("gate.accept_floor=1.75")["k25serve/limits.yaml"])
    (floor,) = (rule["expr"] for rule in limits["groups"][0]["rules"] if rule["record"] == "k25:limit:accept_length")
    assert floor == "vector(1.75)"


def test_the_patience_is_the_profiles() -> None:
    def patience(*overrides: str) -> str:
        (group,) = yaml.safe_load(files(*overrides)["k25serve/alerts.yaml"])["groups"]
        (found,) = (rule["for"] for rule in group["rules"] if rule["alert"] == "K25EngineNotBack")
        return str(found)

    assert patience() == "125m"
    assert patience("engine.ready_timeout_s=9001") == "156m"


def test_links_begin_where_told() -> None:
    text = files(runbook="https://wiki.example/k25/RUNBOOK.md")["k25serve/alerts.yaml"]
    links = [rule["annotations"]["runbook_url"] for rule in yaml.safe_load(text)["groups"][0]["rules"]]
    assert links[0] == "https://wiki.example/k25/RUNBOOK.md#k25acceptancecollapsed"
    assert all(link.startswith("https://wiki.example/k25/RUNBOOK.md#") for link in links)


@pytest.mark.parametrize("interval_s", [1, 75])
def test_prometheus_reads_what_is_made(tmp_path: Path, interval_s: int) -> None:
    for name, text in files(interval_s=interval_s).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    run = subprocess.run([require("promtool"), "check", "config", tmp_path / "prometheus.yml"], capture_output=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert b"3 rule files found" in run.stdout


@pytest.mark.parametrize("interval_s", [0, -5, 76])
def test_an_interval_that_the_rules_cannot_hold(interval_s: int) -> None:
    with pytest.raises(ConfigError, match=rf"--interval {interval_s}: use 1 to 75 seconds"):
        files(interval_s=interval_s)


@pytest.mark.parametrize("runbook", ["", "a b", 'a"b', "a#b", "a\nb"])
def test_a_runbook_that_is_no_link(runbook: str) -> None:
    with pytest.raises(ConfigError, match="--runbook"):
        files(runbook=runbook)


def test_only_the_engines_names_are_mended() -> None:
    config = yaml.safe_load(files()["prometheus.yml"])
    relabelled = {job["job_name"]: job.get("metric_relabel_configs") for job in config["scrape_configs"]}
    assert relabelled["k25serve-gateway"] is None
    (rule,) = relabelled["k25serve-engine"]
    assert re.fullmatch(rule["regex"], "sglang_num_running_reqs")
    assert re.fullmatch(rule["regex"], "vllm_num_requests_running")
    assert not re.fullmatch(rule["regex"], "k25serve_engine_step_seconds_sum")
    assert not re.fullmatch(rule["regex"], "sglang:num_running_reqs")
