"""Whether the drafter can be trained on the GPUs that serve its target."""

from dataclasses import dataclass

from k25serve.drafters.training.estimate.draft_facts import DraftFacts
from k25serve.drafters.training.estimate.machine import Machine
from k25serve.drafters.training.estimate.options import EstimateOptions
from k25serve.drafters.training.estimate.target_facts import TargetFacts

# Graphs, activations, communication buffers: what a profile with mem_fraction_static 0.9 leaves free on 96 GB.
RUNTIME_GB = 9.6
CAPTURED_TOGETHER = 8


@dataclass(frozen=True)
class Room:
    """Of one GPU, 1e9 bytes. `requests`: decoded together, as many as fit, at most the machine's; `kv`: theirs.
    `capture_kv`: of the few samples that are captured together.
    """

    memory: float
    weights: float
    requests: int
    kv: float
    capture_kv: float
    runtime: float
    training: float

    @property
    def free(self) -> float:
        """What the engine leaves while it captures; below 0 where not even the weights fit."""
        return self.memory - self.weights - self.capture_kv - self.runtime

    @property
    def beside(self) -> bool:
        return self.training <= self.free


def room(machine: Machine, target: TargetFacts, draft: DraftFacts, options: EstimateOptions) -> Room:
    """The engine and the trainer on one of the GPUs.

    The KV cache is taken as whole on each rank, as that of MLA is; an answer is on the mean half written.
    """
    weights, runtime = target.weight_bytes / machine.gpus / 1e9, RUNTIME_GB if machine.links != "none" else 0.0
    request = (options.prompt_tokens + options.generated_tokens / 2) * target.kv_bytes_per_token / 1e9
    left = machine.memory_gb - weights - runtime
    requests = max(1, min(machine.decode_concurrency, int(left / request)))
    return Room(
        memory=machine.memory_gb,
        weights=weights,
        requests=requests,
        kv=requests * request,
        capture_kv=CAPTURED_TOGETHER * options.sample_tokens * target.kv_bytes_per_token / 1e9,
        runtime=runtime,
        training=draft.training_bytes / 1e9,
    )
