"""What all-reduces cost, from `bench comm` or by hand."""

import re
from pathlib import Path

from pydantic import ValidationError

from k25serve.bench import provenance
from k25serve.bench.comm.report import CommReport
from k25serve.bench.plan.calibration import AllReduce
from k25serve.server.errors import UserError

BY_HAND = re.compile(r"^(?P<alpha>\d+(\.\d+)?),(?P<beta>\d+(\.\d+)?)$")


def load_link(name: str) -> AllReduce:
    """ALPHA,BETA in us and us per KiB, or a result of `bench comm`: its first all-reduce fit, one in graphs first."""
    if found := BY_HAND.match(name):
        return AllReduce(alpha_us=float(found["alpha"]), beta_us_per_kib=float(found["beta"]), source="given by hand")
    path = Path(name)
    if not path.is_file():
        raise UserError(f"--all-reduce {name}: neither ALPHA,BETA (us, us per KiB) nor a file")
    try:
        report = CommReport.model_validate(provenance.read(path).data)
    except ValidationError:
        raise UserError(f"--all-reduce {path}: not a result file of `bench comm`") from None
    fits = [fit for run in report.runs if run.passed for fit in run.fits if fit.operation == "all_reduce"]
    if not fits:
        raise UserError(f"--all-reduce {path}: no all-reduce fit in it; measure three sizes or more")
    fit = next((one for one in fits if one.graph), fits[0])
    return AllReduce(alpha_us=fit.alpha_us, beta_us_per_kib=fit.beta_us_per_kib, source=str(path))
