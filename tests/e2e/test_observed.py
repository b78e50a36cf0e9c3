"""A real Prometheus on the real engine, the simulated one in vLLM's dialect and a gateway before both."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from e2e.stack import COMMAND, Served
from observing.queries import (
    OWN,
    Expression,
    metric_names,
    panel_expressions,
    recorded,
    rule_expressions,
    rules,
    scraped_names,
    variable_expressions,
)
from observing.server import Prometheus, running, until
from observing.stack import MODEL, gateway, page, simulated_vllm

from k25serve.deploy.prometheus.render import prometheus_files
from k25serve.server.config import load_profile

pytestmark = pytest.mark.engine
ARMS = ("sglang", "vllm")
# What a dashboard's variables are set to.
VARIABLES = {"$arm": ".*", "$a": "vllm", "$b": "sglang"}
FILLED_WITHIN_S = 50


@dataclass(frozen=True)
class Observed:
    gateway: str
    engines: tuple[str, str]
    prometheus: Prometheus
    profile: Path


@pytest.fixture(scope="module")
def observed(eagle: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Prometheus's own configuration is what `k25serve deploy prometheus` makes of the gateway's profile."""
    folder = tmp_path_factory.mktemp("observed")
    # Its drafts are nearly always refused, so that an alert is on its way.
    with simulated_vllm(folder, "--accept-probability", "0.1", "--step-s", "0.002") as vllm:
        arms: list[dict[str, object]] = [
            {"name": "sglang"},
            {"name": "vllm", "url": vllm, "dialect": "vllm"},
            {"name": "shadow", "url": vllm, "dialect": "vllm", "weight": 0},
        ]
        experiment = {
            "name": "observed",
            "state": str(folder / "experiment.sqlite"),
            "control": "sglang",
            "weights": {"sglang": 1.0, "vllm": 1.0},
            "shadow": {"arm": "shadow", "share": 1.0},
        }
        port = urlsplit(eagle.engine_url).port
        assert port is not None
        with gateway(folder, port, arms, experiment=experiment) as (url, profile):
            for name, text in prometheus_files(load_profile(str(profile)), interval_s=1, runbook="R").items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text)
            with running(folder / "prometheus.yml", folder / "data") as prometheus:
                yield Observed(url, (eagle.engine_url, vllm), prometheus, profile)


def ask(
    url: str, arm: str = "", *, conversation: str = "", leave: bool = False, expect: int | None = 200, **fields: Any
) -> None:
    """One request. arm: without one, the conversation decides. leave: go after the first bytes. expect: its status."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}], "max_tokens": 24, "stream": True}
    headers = {"content-type": "application/json", "x-conversation-id": conversation}
    if arm:
        headers["x-k25serve-arm"] = arm
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body | fields).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            status, said = answer.status, answer.read1() if leave else answer.read()
    except urllib.error.HTTPError as error:
        status, said = error.code, error.read()
    assert expect in (None, status), said


def traffic(url: str) -> None:
    """Some of everything that the dashboards show, to each arm."""
    for arm in ARMS:
        for stream in (True, False):
            ask(url, arm, stream=stream)
        ask(url, arm, leave=True, max_tokens=600, ignore_eos=True, sim={"step_s": 0.05})
        ask(url, arm, expect=400, max_tokens=-1)
    ask(url, "vllm", expect=None, sim={"fault": "plain_500"})
    ask(url, "vllm", sim={"frames": ["no JSON", "[DONE]"], "step_s": 0.0})
    for number in range(4):
        # Those that begin at the simulated engine go on to the other.
        ask(url, conversation=f"c{number}", max_tokens=1, sim={"fault": "die_before_headers"})


def unanswered(prometheus: Prometheus, expressions: list[Expression]) -> list[str]:
    """Places of the expressions that give no number now."""
    left = []
    for place, text in expressions:
        for name, value in VARIABLES.items():
            text = text.replace(f'"{name}"', f'"{value}"')
        if not prometheus.values(text):
            left.append(place)
    return left


def test_each_panel_and_rule_has_data(observed: Observed) -> None:
    prometheus = observed.prometheus
    expressions = [*panel_expressions(), *(Expression(name, name) for name in sorted(recorded()))]
    left: list[str] = []
    traffic(observed.gateway)
    subprocess.run([COMMAND, "ab", "stop", "-p", observed.profile], check=True, capture_output=True)

    def filled() -> bool:
        traffic(observed.gateway)
        left[:] = unanswered(prometheus, expressions)
        return not left

    until(filled, FILLED_WITHIN_S, lambda: left)
    for rule in prometheus.get("rules")["groups"]:
        assert [one["lastError"] for one in rule["rules"] if one["health"] != "ok"] == []
    assert len(prometheus.get("targets")["activeTargets"]) == 4
    # One name for both engines.
    for rule in rules("recording"):
        series = prometheus.get("query", query=rule["record"])["result"]
        arms = {one["metric"].get("arm") for one in series} - {"shadow"}
        assert arms == ({"sglang"} if "engine_step" in rule["record"] else set(ARMS)), rule["record"]


def test_each_name_is_scraped(observed: Observed) -> None:
    """As the pages have it, and as Prometheus stores it, which asks for another format and may get other names."""
    traffic(observed.gateway)
    pages = {name for url in (observed.gateway, *observed.engines) for name in scraped_names(page(url))}
    stored = set(observed.prometheus.get("label/__name__/values"))
    for place, text in (*rule_expressions(), *panel_expressions(), *variable_expressions()):
        assert metric_names(text) - recorded() - OWN <= pages, place
        assert metric_names(text) <= stored, place


def test_one_definition_of_acceptance(observed: Observed) -> None:
    """What we count in SGLang step by step, and what its own counters give where ours are off."""
    names = (
        "k25serve_engine_accepted_tokens_per_step_sum",
        "k25serve_engine_accepted_tokens_per_step_count",
        "sglang:generation_tokens_total",
        "sglang:num_requests_total",
        "sglang:spec_verify_calls_total",
    )

    def sums() -> list[float]:
        lines = page(observed.engines[0]).splitlines()
        rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return [sum(float(value) for key, _, value in rows if key.partition("{")[0] == name) for name in names]

    def gained() -> list[float]:
        return [now - then for now, then in zip(sums(), before, strict=True)]

    until(lambda: observed.prometheus.values('k25serve_gateway_inflight{arm="sglang"} == 0'), FILLED_WITHIN_S)
    before = sums()
    for _ in range(2):
        ask(observed.gateway, "sglang", max_tokens=120, ignore_eos=True)
    until(lambda: gained()[1] == gained()[4] and gained()[3] == 2, 10, gained)
    accepted, steps, tokens, requests, finished_steps = gained()
    counted, derived = 1 + accepted / steps, (tokens - requests) / finished_steps
    print(f"accept_length counted in SGLang {counted:.3f} over {steps:.0f} steps, from its own counters {derived:.3f}")
    # A last step may accept more than the limit lets out.
    assert derived == pytest.approx(counted, rel=0.03)
    assert derived <= counted
