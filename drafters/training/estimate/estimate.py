"""The estimate of one run on one machine."""

from dataclasses import asdict, dataclass
from typing import Any

from k25serve.drafters.training.estimate.assumptions import assumptions
from k25serve.drafters.training.estimate.draft_facts import DraftFacts, draft_facts
from k25serve.drafters.training.estimate.hours import Hours, Rates, hours, rates, shards
from k25serve.drafters.training.estimate.machine import Machine, load_machine
from k25serve.drafters.training.estimate.memory import Room, room
from k25serve.drafters.training.estimate.options import EstimateOptions
from k25serve.drafters.training.estimate.target_facts import TargetFacts, read_target


@dataclass(frozen=True)
class Estimate:
    """`hidden_tb`: hidden states of all samples, 1e12 bytes; `shards`: parts of it, one on the disk at a time."""

    options: EstimateOptions
    machine: Machine
    target: TargetFacts
    draft: DraftFacts
    rates: Rates
    room: Room
    hours: Hours
    hidden_tb: float
    shards: int

    @property
    def gpu_hours(self) -> float:
        return self.hours.total * self.machine.gpus

    @property
    def cost(self) -> float | None:
        """None where no price was given."""
        price = self.options.price_per_gpu_hour
        return None if price is None else self.gpu_hours * price

    @property
    def alternates(self) -> bool:
        """Whether capture and fit take turns: the disk or the GPUs don't hold both."""
        return self.shards > 1

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain types."""
        from k25serve.drafters.training.estimate.recommend import recommend

        return {
            "options": self.options.model_dump(mode="json"),
            "machine": self.machine.model_dump(mode="json", exclude_none=True),
            "target": asdict(self.target) | {"hidden_bytes_per_token": self.target.hidden_bytes_per_token},
            "drafter": asdict(self.draft),
            "tokens": self.options.tokens,
            "rates_tokens_per_s": asdict(self.rates),
            "hours": asdict(self.hours) | {"total": self.hours.total},
            "gpu_hours": self.gpu_hours,
            "hidden_tb": self.hidden_tb,
            "shards": self.shards,
            "memory_gb_per_gpu": asdict(self.room) | {"free": self.room.free},
            "trains_beside_serving": self.room.beside,
            "cost": self.cost,
            "recommendation": recommend(self),
            "assumptions": assumptions(self.machine, self.target, self.options),
        }


def estimate(options: EstimateOptions) -> Estimate:
    """Raises TrainingError for an unknown machine, CheckpointError for a config.json without the sizes."""
    machine, target = load_machine(options.machine), read_target(options.target)
    draft = draft_facts(target, options)
    space, parts = room(machine, target, draft, options), shards(options, target)
    speeds = rates(machine, target, draft, space.requests)
    return Estimate(
        options=options,
        machine=machine,
        target=target,
        draft=draft,
        rates=speeds,
        room=space,
        hours=hours(options, machine, target, speeds, parts, space.beside),
        hidden_tb=options.tokens * target.hidden_bytes_per_token / 1e12,
        shards=parts,
    )
