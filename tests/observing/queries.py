"""Every PromQL expression that deploy/ holds, and the metrics that it names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
# What Prometheus makes itself.
OWN = {"ALERTS", "up"}


class Expression(NamedTuple):
    """Where it stands, and what it says."""

    place: str
    text: str


def rules(name: str = "*") -> list[dict[str, Any]]:
    """Rules of the files rules/`name`.yaml."""
    files = sorted(RULES.glob(f"{name}.yaml"))
    return [rule for path in files for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def rule_expressions() -> list[Expression]:
    return [Expression(rule.get("record") or rule["alert"], rule["expr"]) for rule in rules()]


def recorded() -> set[str]:
    """Names that a recording rule makes."""
    return {rule["record"] for rule in rules() if "record" in rule}


def panel_expressions() -> list[Expression]:
    return [
        Expression(f"{path.stem}: {panel['title']}: {target['legendFormat']}", target["expr"])
        for path in sorted(DASHBOARDS.glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    ]


def variable_expressions() -> list[Expression]:
    """What a dashboard's variables are filled from: the selector inside label_values(SELECTOR, LABEL)."""
    found = {
        f"{path.stem}: ${variable['name']}": variable["query"].removeprefix("label_values(").rpartition(",")[0]
        for path in sorted(DASHBOARDS.glob("*.json"))
        for variable in json.loads(path.read_text())["templating"]["list"]
        if variable["type"] == "query"
    }
    return [Expression(place, text) for place, text in found.items()]


def metric_names(text: str) -> set[str]:
    """Names in the selectors of an expression.

    Raises ValueError for a selector that has no plain name: its metrics could not be looked for.
    """
    names: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            if not node.name:
                raise ValueError(f"a selector without a name in {text}")
            names.add(node.name)

    promql_parser.walk(promql_parser.parse(text), visit)
    return names


def scraped_names(page: str) -> Iterator[str]:
    """Sample names of a page in Prometheus's text format."""
    for line in page.splitlines():
        if line and not line.startswith("#"):
            yield line.partition(" ")[0].partition("{")[0]
