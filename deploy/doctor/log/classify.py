"""Which known failures a log shows: rules as data, each line taken by the first rule that matches it."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from k25serve.server.config.shown import one_line

MOST_EVIDENCE = 300
MOST_LINE = 4000  # searched: a pattern takes quadratic time


@dataclass(frozen=True)
class Rule:
    """A failure: `match` is searched for in a line, lines that match `unless` are left out."""

    name: str
    match: re.Pattern[str]
    unless: re.Pattern[str] | None
    cause: str
    advice: str


@dataclass(frozen=True)
class Cause:
    """What a log says, at its first line of this kind (from 1)."""

    name: str
    line: int
    evidence: str
    cause: str
    advice: str

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of rules.yaml, in its order."""
    text = files("k25serve.deploy.doctor.log").joinpath("rules.yaml").read_text(encoding="utf-8")
    return tuple(
        Rule(
            name=row["name"],
            match=re.compile(row["match"]),
            unless=re.compile(row["unless"]) if "unless" in row else None,
            cause=row["cause"],
            advice=row["advice"],
        )
        for row in yaml.safe_load(text)
    )


def classify(lines: Iterable[str]) -> list[Cause]:
    """Each cause once, in the rules' order: the first one explains most, the rest often follow from it."""
    found: dict[str, Cause] = {}
    for number, whole in enumerate(lines, 1):
        line = whole[:MOST_LINE]
        rule = next((one for one in rules() if _matches(one, line)), None)
        if rule is not None and rule.name not in found:
            evidence = one_line(line.strip()[:MOST_EVIDENCE])
            found[rule.name] = Cause(rule.name, number, evidence, rule.cause, rule.advice)
    return [found[rule.name] for rule in rules() if rule.name in found]


def _matches(rule: Rule, line: str) -> bool:
    return rule.match.search(line) is not None and not (rule.unless is not None and rule.unless.search(line))
