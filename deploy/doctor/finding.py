"""What a check says."""

from dataclasses import asdict, dataclass
from typing import Literal

from k25serve.server.errors import UserError

Verdict = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at: verdict, what it was judged by, and what to do where it isn't ok."""

    check: str
    verdict: Verdict
    evidence: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def ok(check: str, evidence: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", evidence)


def skip(check: str, why: str) -> Finding:
    """Not looked at, and why."""
    return Finding(check, "skip", why)


def refused(check: str, error: UserError) -> Finding:
    """The refusal that a start would end with: what it says up to its last semicolon, then the remedy."""
    evidence, _, remedy = str(error).rpartition("; ")
    return Finding(check, "fail", evidence or remedy, remedy if evidence else "")
