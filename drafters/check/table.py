"""A report as a table on a terminal."""

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from k25serve.drafters.check.report import Report, Verdict
from k25serve.drafters.check.rules import RULES

STYLES = {Verdict.PASS: "green", Verdict.WARN: "yellow", Verdict.REFUSE: "red"}


def report_table(report: Report) -> Table:
    """One row a rule: verdict, rule, evidence, and the remedy below it."""
    table = Table(box=SIMPLE_HEAD, caption=_caption(report), caption_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("evidence", overflow="fold")
    findings = {finding.rule: finding for finding in report.findings}
    for rule in RULES:
        finding = findings.get(rule.name)
        if finding is None:
            table.add_row(Text("-", style="dim"), rule.name, Text("not judged: a rule above refused", style="dim"))
            continue
        evidence = Text(finding.evidence)
        if finding.remedy:
            evidence.append(f"\n-> {finding.remedy}", style="bold")
        table.add_row(Text(finding.verdict.value, style=STYLES[finding.verdict]), rule.name, evidence)
    return table


def _caption(report: Report) -> str:
    counts = ", ".join(f"{len(report.with_verdict(verdict))} {verdict.value}" for verdict in Verdict)
    return f"{report.verdict.value}: {counts}, {len(report.not_judged)} not judged"
