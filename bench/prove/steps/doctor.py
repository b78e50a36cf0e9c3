"""What would stop or slow a profile's engine, before production is touched."""

from k25serve.bench.prove.step import Arm, Outcome, Scene, StepFailed
from k25serve.bench.provenance import Recorder, write
from k25serve.deploy.doctor.examine import examine
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import load_profile

HELD = ("ports", "memory")  # a baseline that runs on this machine holds them; a start looks at them again


async def doctor(scene: Scene, arm: Arm) -> Outcome:
    """Raises StepFailed for a finding that would stop the profile's start."""
    recorder = Recorder("doctor")
    findings = list(examine(load_profile(arm.name, need_models=False), Machine()))
    file = write(recorder.finish({"profile": arm.name, "findings": [one.as_json() for one in findings]}), scene.results)
    for one in findings:
        if one.verdict in ("warn", "fail"):
            scene.say(f"  {one.verdict} {one.check}: {one.evidence}")
    fatal = [one for one in findings if one.verdict == "fail" and one.check not in HELD]
    if fatal:
        first = fatal[0]
        more = f" (and {len(fatal) - 1} more: k25serve doctor -p {arm.name})" if len(fatal) > 1 else ""
        raise StepFailed(f"doctor: {first.check}: {first.evidence}; {first.remedy}{more}")
    count = {word: sum(one.verdict == word for one in findings) for word in ("ok", "warn", "fail", "skip")}
    return Outcome(", ".join(f"{number} {word}" for word, number in count.items() if number), file)
