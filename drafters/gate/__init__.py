"""Does the drafter work? 50 prompts through the running engine, what was accepted, and whether that is enough."""

from k25serve.drafters.gate.compare import Arm, Boot, compare
from k25serve.drafters.gate.comparison import Comparison, Pass, Row, compare_rows
from k25serve.drafters.gate.prompts import PromptSet, load_prompts
from k25serve.drafters.gate.result import GateResult, write_json
from k25serve.drafters.gate.run import run_gate
from k25serve.drafters.gate.tables import comparison_table, gate_table
from k25serve.drafters.gate.verdict import GateSettings, Measured, judge

__all__ = [
    "Arm",
    "Boot",
    "Comparison",
    "GateResult",
    "GateSettings",
    "Measured",
    "Pass",
    "PromptSet",
    "Row",
    "compare",
    "compare_rows",
    "comparison_table",
    "gate_table",
    "judge",
    "load_prompts",
    "run_gate",
    "write_json",
]
