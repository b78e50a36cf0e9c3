"""Does a drafter fit its target? One named rule for each way in which SGLang serves a drafter that accepts nothing."""

from k25serve.drafters.check.facts import Options
from k25serve.drafters.check.report import EXIT_CODES, Finding, Report, Verdict
from k25serve.drafters.check.rules import RULES
from k25serve.drafters.check.run import check_drafter
from k25serve.drafters.check.table import report_table

__all__ = ["EXIT_CODES", "RULES", "Finding", "Options", "Report", "Verdict", "check_drafter", "report_table"]
