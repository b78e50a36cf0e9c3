"""The step itself: speculators' checkpoint to SGLang's layout, checked before it is there."""

from dataclasses import dataclass
from pathlib import Path

from k25serve.drafters.adapters import AdaptOptions, adapt
from k25serve.drafters.adapters.write import CONFIG, MODEL, PROVENANCE, new_folder, sha256, write_json
from k25serve.drafters.check import Report, check_drafter
from k25serve.drafters.check.report import Verdict
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object
from k25serve.drafters.training.export.options import ExportOptions
from k25serve.drafters.training.export.origin import training_record
from k25serve.drafters.training.fit.curves import FILE, read_curves

FINAL, CURVES = "final", "curves.json"


@dataclass(frozen=True)
class Exported:
    """folder: in SGLang's layout; report: of `drafter check`, which it passed."""

    folder: Path
    report: Report


def export(options: ExportOptions, run: Path, target: Path, out: Path) -> Exported:
    """run/fit/final -> `out`, with provenance.json and curves.json. Nothing is written unless the check passes.

    Raises TrainingError, AdaptError or CheckpointError.
    """
    fitted = run / "fit"
    if not (fitted / FINAL / MODEL).is_file():
        raise TrainingError(f"{fitted / FINAL}: no trained drafter; run `k25serve drafter train fit` to its end")
    training = training_record(run)
    with new_folder(out) as folder:
        adapt("speculators", fitted / FINAL, folder, target, AdaptOptions(context_length=options.context_length))
        report = check_drafter(folder, target, options.context_length)
        for first in report.with_verdict(Verdict.REFUSE)[:1]:
            raise TrainingError(
                f"{fitted / FINAL}: `drafter check` refuses it, rule {first.rule}: {first.evidence}; {first.remedy}"
            )
        write_json(folder / CURVES, {"evaluations": read_curves(fitted / FILE)})
        hashes = {name: sha256(folder / name) for name in (CONFIG, MODEL, CURVES)}
        record = read_object(folder / PROVENANCE)
        write_json(folder / PROVENANCE, {**record, "training": training, "sha256": hashes})
    return Exported(out, report)
