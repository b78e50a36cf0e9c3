"""What all-reduces cost, from `bench comm` or by hand."""

from pathlib import Path

from pydantic import ValidationError

from k25serve.bench import provenance
from k25serve.bench.comm.report import CommReport
from k25serve.bench.plan.calibration import AllReduce
from k25serve.bench.plan.data_files import checked, is_file
from k25serve.server.errors import UserError


def load_link(name: str, option: str = "--all-reduce") -> AllReduce:
    """ALPHA,BETA in us and us per KiB, or a result of `bench comm`: its first all-reduce fit, one in graphs first."""
    path = Path(name)
    if not is_file(path):
        return _by_hand(name, option)
    try:
        report = CommReport.model_validate(provenance.read(path).data)
    except ValidationError:
        raise UserError(f"{option} {path}: not a result file of `bench comm`") from None
    fits = [fit for run in report.runs if run.passed for fit in run.fits if fit.operation == "all_reduce"]
    if not fits:
        raise UserError(f"{option} {path}: no all-reduce fit in it; measure three sizes or more")
    fit = next((one for one in fits if one.graph), fits[0])
    return _checked(f"{option} {path}", fit.alpha_us, fit.beta_us_per_kib, str(path))


def _by_hand(name: str, option: str) -> AllReduce:
    try:
        alpha, beta = map(float, name.split(","))
    except ValueError:
        raise UserError(f"{option} {name}: neither ALPHA,BETA (us, us per KiB), like 18.8,0.08, nor a file") from None
    return _checked(f"{option} {name}", alpha, beta, "given by hand")


def _checked(place: str, alpha: float, beta: float, source: str) -> AllReduce:
    return checked(place, AllReduce, {"alpha_us": alpha, "beta_us_per_kib": beta, "source": source})
