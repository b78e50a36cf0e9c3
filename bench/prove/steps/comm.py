"""Do the links work, before an hour of loading ends in a hang."""

from k25serve.bench.comm.host import gpu_count, read_host
from k25serve.bench.comm.report import CommReport
from k25serve.bench.comm.sweep import preflight
from k25serve.bench.comm.table import advice, run_line
from k25serve.bench.prove.step import Outcome, Scene, StepFailed, skipped
from k25serve.bench.provenance import Recorder, write


async def comm(scene: Scene) -> Outcome:
    """Raises StepFailed where collectives fail as the environment is. It holds the loop for its time box: a signal
    waits until its ranks are gone, so that production does not start beside them.
    """
    gpus = gpu_count()
    if gpus < 2:
        return skipped(f"{gpus} GPU{'' if gpus == 1 else 's'} here, and a collective takes two")
    recorder = Recorder("comm")
    runs = preflight(gpus, "nccl", say=scene.say)
    report = CommReport(host=read_host(), runs=runs)
    file = write(recorder.finish(report.model_dump(mode="json")), scene.results)
    if line := advice(runs):
        raise StepFailed(f"comm: {line} ({file})")
    return Outcome(run_line(runs[0]), file)
