"""What a check says: a verdict for each rule, the evidence, the remedy."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    PASS = "pass"
    WARN = "warn"
    REFUSE = "refuse"


# 2 is a mistake in the command itself, as everywhere in k25serve.
EXIT_CODES = {Verdict.PASS: 0, Verdict.REFUSE: 1, Verdict.WARN: 3}


@dataclass(frozen=True)
class Judgement:
    """One rule's verdict; `remedy` is empty where nothing is to be done."""

    verdict: Verdict
    evidence: str
    remedy: str = ""


@dataclass(frozen=True)
class Finding:
    """A judgement with its rule's name."""

    rule: str
    verdict: Verdict
    evidence: str
    remedy: str


@dataclass(frozen=True)
class Report:
    """All findings, in the table's order. `not_judged`: rules that stand on one that refused."""

    drafter: str
    target: str
    context_length: int
    findings: tuple[Finding, ...]
    not_judged: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        found = {finding.verdict for finding in self.findings}
        return next((verdict for verdict in (Verdict.REFUSE, Verdict.WARN) if verdict in found), Verdict.PASS)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def with_verdict(self, verdict: Verdict) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict is verdict)

    def summary(self) -> str:
        """One line: the verdict, and the first fault with its remedy where there is one."""
        worst = self.with_verdict(self.verdict)
        if self.verdict is Verdict.PASS or not worst:
            return f"drafter {self.drafter} fits: {len(self.findings)} rules pass"
        more = f" ({len(worst) - 1} more)" if len(worst) > 1 else ""
        return f"drafter {self.drafter}: {worst[0].rule}: {worst[0].evidence}; {worst[0].remedy}{more}"

    def as_json(self) -> dict[str, Any]:
        """For `--json`: plain values only."""
        return {
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "drafter": self.drafter,
            "target": self.target,
            "context_length": self.context_length,
            "rules": [
                {
                    "rule": finding.rule,
                    "verdict": finding.verdict.value,
                    "evidence": finding.evidence,
                    "remedy": finding.remedy,
                }
                for finding in self.findings
            ],
            "not_judged": list(self.not_judged),
        }


def passed(evidence: str) -> Judgement:
    return Judgement(Verdict.PASS, evidence)


def warned(evidence: str, remedy: str) -> Judgement:
    return Judgement(Verdict.WARN, evidence, remedy)


def refused(evidence: str, remedy: str) -> Judgement:
    return Judgement(Verdict.REFUSE, evidence, remedy)
