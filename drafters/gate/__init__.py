"""Does the drafter work? Fifty prompts through the running engine, what was accepted, and whether that is enough."""

from k25serve.drafters.gate.compare import Arm, Boot, Comparison, Row, compare, compare_rows, to_row
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
    "PromptSet",
    "Row",
    "compare",
    "compare_rows",
    "comparison_table",
    "gate_table",
    "judge",
    "load_prompts",
    "run_gate",
    "to_row",
    "write_json",
]
