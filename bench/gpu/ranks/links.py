"""Step `links`: all-reduce and all-to-all between the ranks over message size, each implementation with its fit."""

from typing import Any

from k25serve.bench.comm.report import CommReport, Fit
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks.command import result_of
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.plan.calibration import AllReduce

PATHS = ("torch", "sglang-nccl", "sglang-custom")
FOLDER = "links"
CPU_SIZES = (512, 4096, 65536)  # a token of the packaged model is 512 bytes
# How `bench trace` calls an all-reduce -> the path that is the same implementation.
FAMILIES = {"nccl": ("sglang-nccl", "torch"), "custom": ("sglang-custom",), "custom-v2": ("sglang-custom",)}


def run(setting: Setting) -> dict[str, Any]:
    """The report of `bench comm`. SGLang's own paths may fail on a host, which is a finding; torch's must pass."""
    arguments = ["bench", "comm", "--ranks", str(setting.ranks), "--backend", setting.backend]
    for path in PATHS[:1] if setting.on_cpu else PATHS:
        arguments += ["--path", path]
    for size in CPU_SIZES if setting.on_cpu else ():
        arguments += ["--size", str(size)]
    found = result_of(arguments, setting.how.folder / FOLDER, "comm")
    report = CommReport.model_validate(found.data)
    failed = [run.plan.path for run in report.runs if not run.passed]
    if "torch" in failed:
        raise ProofError(f"collectives between {setting.ranks} ranks do not work; see {setting.how.folder / FOLDER}")
    # Its findings say what matters of the kernel's command line, which tells more of a host than a result should.
    host = report.host.model_copy(update={"kernel_command_line": ""})
    kept = report.model_copy(update={"host": host}).model_dump(mode="json")
    return {"report": kept, "paths_that_failed": failed}


def link_of(report: dict[str, Any], families: tuple[str, ...], calls: float) -> AllReduce:
    """The fit of the implementation that a trace shows most of, torch's where none of its kind was measured.

    calls: all-reduces of a decode step. Raises ProofError where no path has a fit.
    """
    fits = all_reduce_fits(report)
    wanted = [path for family in families for path in FAMILIES.get(family, ())]
    for path in (*wanted, "torch", *fits):
        if path in fits:
            fit = fits[path]
            return AllReduce(
                alpha_us=fit.alpha_us,
                beta_us_per_kib=fit.beta_us_per_kib,
                calls=round(calls),
                source=f"bench comm, {path}",
            )
    raise ProofError("no all-reduce fit; run the step links again with three sizes or more")


def all_reduce_fits(report: dict[str, Any]) -> dict[str, Fit]:
    """By path: its all-reduce fit, from CUDA graphs where there is one, as engines decode."""
    found: dict[str, Fit] = {}
    for one in CommReport.model_validate(report).runs:
        fits = [fit for fit in one.fits if fit.operation == "all_reduce"] if one.passed else []
        if fits:
            found[one.plan.path] = next((fit for fit in fits if fit.graph), fits[0])
    return found


def markdown(data: dict[str, Any]) -> str:
    """A line a fit, and what failed."""
    report = CommReport.model_validate(data["report"])
    lines = ["| path | operation | graph | us | us a KiB | off by (rms) |", "|---|---|---|---|---|---|"]
    for one in report.runs:
        for fit in one.fits:
            lines.append(
                f"| {one.plan.path} | {fit.operation} | {'yes' if fit.graph else 'no'} | {fit.alpha_us:.1f} "
                f"| {fit.beta_us_per_kib:.4f} | {fit.residual_rms:.1%} |"
            )
    for one in report.runs:
        if not one.passed:
            lines.append(f"\n{one.plan.path}: {'hung' if one.hung else 'failed'}: {_why(one.ends)}")
    return "\n".join(lines)


def _why(ends: Any) -> str:
    """The last error that a rank printed, else its last line: what comes after an error may be a warning."""
    for end in ends:
        if end.log:
            said = next((line for line in reversed(end.log) if "Error: " in line), end.log[-1])
            return f"rank {end.rank} at {end.stage}: {said}"
    return "no word of it"
