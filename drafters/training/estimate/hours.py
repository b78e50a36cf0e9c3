"""Hours of each step: tokens over tokens a second."""

import math
from dataclasses import dataclass

from k25serve.drafters.training.estimate.draft_facts import DraftFacts
from k25serve.drafters.training.estimate.machine import Machine, Rate
from k25serve.drafters.training.estimate.options import EstimateOptions
from k25serve.drafters.training.estimate.target_facts import TargetFacts

HOUR = 3600.0
# Throughput over requests, as a power: 636 tokens/s at 16 to 2,222 at 128 (local-inference-lab/rtx6kpro, kimi-k26-v4).
DECODE_GROWTH = 0.6
DISK_SHARE = 0.9  # of the free disk that hidden states may fill


@dataclass(frozen=True)
class Rates:
    """Tokens a second of the whole machine."""

    prefill: float
    decode: float
    fit: float


@dataclass(frozen=True)
class Hours:
    """By step. `regenerate`: the prompts' prefill and the answers. `loads`: the weights, once an engine start."""

    regenerate: float
    capture: float
    fit: float
    loads: float

    @property
    def total(self) -> float:
        return self.regenerate + self.capture + self.fit + self.loads


def rates(machine: Machine, target: TargetFacts, draft: DraftFacts, requests: int) -> Rates:
    """Measured ones are scaled to the target: prefill by active parameters, decode by bytes of weights.

    requests: how many are decoded together, where fewer fit than the machine's rate is of.
    """
    return Rates(
        prefill=_by_parameters(machine.prefill, machine, target.active_parameters, 2.0 * target.active_parameters),
        decode=_decode(machine, target, requests),
        fit=_by_parameters(machine.fit, machine, draft.trainable, draft.flops_per_token),
    )


def _by_parameters(rate: Rate, machine: Machine, parameters: int, flops_per_token: float) -> float:
    if rate.tokens_per_s is not None and rate.active_parameters is not None:
        return rate.tokens_per_s * rate.active_parameters / parameters
    return machine.peak_flops * (rate.efficiency or 0) / flops_per_token


def _decode(machine: Machine, target: TargetFacts, requests: int) -> float:
    rate = machine.decode
    if rate.tokens_per_s is not None and rate.weight_bytes is not None:
        fewer = math.pow(requests / machine.decode_concurrency, DECODE_GROWTH)
        return rate.tokens_per_s * fewer * rate.weight_bytes / target.weight_bytes
    # With many requests a step reads nearly every expert: the weights once.
    step_s = target.weight_bytes / (machine.gpus * machine.memory_tb_s * 1e12 * (rate.efficiency or 0))
    return requests / step_s


def shards(options: EstimateOptions, target: TargetFacts) -> int:
    """Into how many parts the hidden states must be cut so that one fits the disk."""
    if options.disk_tb is None:
        return 1
    needed = options.tokens * target.hidden_bytes_per_token
    return max(1, math.ceil(needed / (DISK_SHARE * options.disk_tb * 1e12)))


def hours(
    options: EstimateOptions, machine: Machine, target: TargetFacts, speeds: Rates, parts: int, beside: bool
) -> Hours:
    """beside: the trainer fits on the GPUs while the engine holds its weights, so the engine starts once."""
    prompts = options.samples * options.prompt_tokens / speeds.prefill
    answers = options.samples * options.generated_tokens / speeds.decode
    starts = 1 if beside else parts
    load = target.weight_bytes / (machine.load_gb_s * 1e9) + machine.start_s
    return Hours(
        regenerate=(prompts + answers) / HOUR if options.regenerate else 0.0,
        capture=options.tokens / speeds.prefill / HOUR,
        fit=options.epochs * options.tokens / speeds.fit / HOUR,
        loads=starts * load / HOUR,
    )
