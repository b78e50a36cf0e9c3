"""The hero run before it is paid for: hours, disk, memory and money of training a drafter, on a given machine.

target config.json -> `target_facts`, `draft_facts`; machine file -> `machine`; both -> `hours`, `memory` -> `estimate`
-> `recommend`, `table`, `document`.
"""

from k25serve.drafters.training.estimate.estimate import Estimate, estimate
from k25serve.drafters.training.estimate.options import EstimateOptions

__all__ = ["Estimate", "EstimateOptions", "estimate"]
