"""From how much slower n-gram speculation was: how many tokens a step it must have brought, on this machine's curve.

S = A / R, with R the cost of a verify step over a plain one, so A = S R. If only a share of the steps had a proposal,
the accept length of those is higher; what is derived is the mean over all steps.
"""

import math
from dataclasses import dataclass

from k25serve.bench.plan.acceptance import AcceptCurve
from k25serve.bench.plan.model import Z90, Planner
from k25serve.server.errors import UserError


@dataclass(frozen=True, slots=True)
class NgramFinding:
    """Accept lengths (bonus token included) that explain the slow-down; low and high carry the curve's error too."""

    k: int
    concurrency: int
    cost_ratio: float
    least: float
    most: float
    low: float
    high: float

    @property
    def accepted_share(self) -> tuple[float, float]:
        """Accepted drafts a step over k, of the least and most."""
        return (self.least - 1) / self.k, (self.most - 1) / self.k


def ngram_accept(finding: NgramFinding) -> AcceptCurve:
    """The accept curve in the middle of what explains the slow-down, each position equally likely."""
    middle = math.sqrt(finding.least * finding.most)
    error = math.log(finding.high / finding.low) / (2 * Z90)
    return AcceptCurve.geometric("n-gram, derived from the user's result", middle, finding.k, error)


def explain_ngram(planner: Planner) -> NgramFinding:
    """Explain the calibration's n-gram report. Raises UserError where it has none."""
    report = planner.machine.ngram
    if report is None:
        raise UserError(f"--calibration {planner.machine.name}: has no n-gram result to explain; add `ngram` to it")
    tokens = report.concurrency * (report.k + 1)
    ratio = planner.curve.step_ms(tokens, 0) / planner.curve.step_ms(report.concurrency, 0)
    least, most = (1 - report.slower_most) * ratio, (1 - report.slower_least) * ratio
    if most < 1 or least > report.k + 1:
        raise UserError(
            f"calibration {planner.machine.name}: ngram: slower by {report.slower_least} to {report.slower_most} means "
            f"{least:.2f} to {most:.2f} tokens a step, but {report.k} drafts give 1 to {report.k + 1}; correct ngram "
            "or the points"
        )
    most = min(report.k + 1.0, most)
    spread = math.exp(Z90 * planner.error)
    # No step brings less than its bonus token, or more than all drafts.
    low, high = max(1.0, least / spread), min(report.k + 1.0, most * spread)
    return NgramFinding(report.k, report.concurrency, ratio, max(1.0, least), most, low, high)
