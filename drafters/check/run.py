"""Runs every rule on a drafter and its target, from config files and headers alone."""

from dataclasses import replace
from pathlib import Path

from k25serve.drafters.check.facts import Facts, Options
from k25serve.drafters.check.report import Finding, Report, Verdict
from k25serve.drafters.check.rules import RULES
from k25serve.drafters.checkpoint import Checkpoint, Target


def check_drafter(
    drafter_dir: Path | str, target_dir: Path | str, context_length: int | None = None, options: Options | None = None
) -> Report:
    """Judge whether the drafter fits the target. Reads no weights but d2t, t2d and some rows of embeddings.

    context_length: what will be served; without it, all that the target can. `options` is what the launch states.
    Raises CheckpointError where a folder or a file cannot be read at all.
    """
    options = options or Options()
    if context_length is not None:
        options = replace(options, context_length=context_length)
    facts = Facts(Checkpoint(Path(drafter_dir)), Target(Path(target_dir)), options)
    findings, out, not_judged = [], set[str](), []
    for rule in RULES:
        if out & set(rule.needs):
            not_judged.append(rule.name)
            out.add(rule.name)
            continue
        judgement = rule.judge(facts)
        findings.append(Finding(rule.name, judgement.verdict, judgement.evidence, judgement.remedy))
        if judgement.verdict is Verdict.REFUSE:
            out.add(rule.name)
    served = 0 if "target" in out else facts.context_length
    return Report(str(drafter_dir), str(target_dir), served, tuple(findings), tuple(not_judged))
