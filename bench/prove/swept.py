"""Finished steps' files -> what the verdict and the plan read."""

from k25serve.bench import provenance
from k25serve.bench.load.records_file import read_records
from k25serve.bench.load.result import LoadData
from k25serve.bench.prove.step import BASELINE, Arm, Scene, StepFailed
from k25serve.bench.prove.verdict import Swept
from k25serve.server.config import load_profile


def swept(scene: Scene, arm: Arm) -> Swept:
    """An arm's sweep. Raises StepFailed where there is none."""
    path = scene.journal.result(f"sweep-{arm.key}")
    if path is None:
        raise StepFailed(f"sweep of {arm.name}: has no result; run the same command again")
    data = LoadData.model_validate(provenance.read(path).data)
    return Swept(arm.name, data, read_records(path.with_name(data.records_file)), _kv(scene, arm, data))


def _kv(scene: Scene, arm: Arm, data: LoadData) -> str | None:
    told = data.server.get("kv_cache_dtype")
    if told is not None:
        return told
    if arm.name == BASELINE:
        return scene.configuration.baseline_kv
    return load_profile(arm.name, need_models=False).engine.kv_cache_dtype
