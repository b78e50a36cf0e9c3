"""The dashboards' JSON: what the code makes, in Grafana's schema."""

import json
from itertools import combinations
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from observing.queries import DASHBOARDS, metric_names, panel_expressions, variable_expressions

from k25serve.deploy.grafana.build import dashboards

NAMES = sorted(path.name for path in DASHBOARDS.iterdir())


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DASHBOARDS / name).read_text())
    return document


def test_files_are_what_the_code_makes() -> None:
    made = dashboards()
    assert sorted(made) == NAMES, "run python -P -m k25serve.deploy.grafana"
    for name, text in made.items():
        assert (DASHBOARDS / name).read_text() == text, f"{name}: run python -P -m k25serve.deploy.grafana"


@pytest.mark.parametrize("name", NAMES)
def test_grafanas_schema_knows_every_key(name: str) -> None:
    """Read into Grafana's model and written again, nothing is lost: what the schema doesn't know would be."""
    register_default_plugins()
    document = read(name)
    assert json.loads(json.dumps(Dashboard.from_json(document), cls=JSONEncoder)) == document


@pytest.mark.parametrize("name", NAMES)
def test_layout(name: str) -> None:
    """Numbered panels that neither overlap nor leave the grid of 24 columns, each with a title and a text."""
    panels = read(name)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["title"]
        assert panel["type"] == "row" or panel["description"].endswith(".")
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


@pytest.mark.parametrize("name", NAMES)
def test_any_prometheus_will_do(name: str) -> None:
    """No panel and no query names a data source of its own."""
    panels = [panel for panel in read(name)["panels"] if panel["type"] != "row"]
    wanted = {"type": "prometheus", "uid": "${datasource}"}
    assert all(part["datasource"] == wanted for panel in panels for part in (panel, *panel["targets"]))


def test_every_query_is_promql() -> None:
    for place, text in (*panel_expressions(), *variable_expressions()):
        assert metric_names(text), place


def test_dashboards_are_told_apart() -> None:
    documents = [read(name) for name in NAMES]
    assert len({document["uid"] for document in documents}) == len(documents)
    assert len({document["title"] for document in documents}) == len(documents)
