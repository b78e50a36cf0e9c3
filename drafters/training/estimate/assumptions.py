"""What an estimate takes for granted, in sentences."""

from k25serve.drafters.training.estimate.draft_facts import STATE_BYTES
from k25serve.drafters.training.estimate.hours import DECODE_GROWTH, DISK_SHARE
from k25serve.drafters.training.estimate.machine import Machine, Rate
from k25serve.drafters.training.estimate.memory import RUNTIME_GB
from k25serve.drafters.training.estimate.options import EstimateOptions
from k25serve.drafters.training.estimate.target_facts import TargetFacts


def assumptions(machine: Machine, target: TargetFacts, options: EstimateOptions) -> list[str]:
    """Every number that was not given and not computed from config.json, with where it is from."""
    return [
        f"{machine.name}: {machine.gpus}x {machine.gpu}, {machine.memory_gb:g} GB, {machine.bf16_tflops:g} TFLOP/s "
        f"bf16 dense, {machine.memory_tb_s:g} TB/s, {machine.links} {machine.link_gb_s:g} GB/s ({machine.source})",
        f"prefill {_rate(machine.prefill)}",
        f"decode at {machine.decode_concurrency} requests {_rate(machine.decode)}",
        f"fit {_rate(machine.fit)}",
        f"weights: {target.weight_bytes / 1e9:.0f} GB, from {target.weights_from}; loaded at {machine.load_gb_s:g} "
        f"GB/s ({machine.load_source})",
        f"drafter: one layer with the target's heads and the MLP of its dense layers; trained at 6 operations a "
        f"parameter, token and unrolled step ({options.ttt_steps} steps), {STATE_BYTES} bytes a parameter, whole on "
        f"each GPU, sequences of up to {options.max_length} tokens",
        f"where fewer requests fit, a measured decode rate falls with their power of {DECODE_GROWTH:g}, a guessed one "
        "in proportion",
        f"graphs, activations and buffers of the engine: {RUNTIME_GB:g} GB a GPU; KV cache: bf16, whole on each GPU",
        "rates of all samples are those of the mean length; the prompts' prefill counts, failed requests don't",
        f"hidden states: bf16, four a token, on up to {DISK_SHARE:.0%} of the disk; a part is captured, "
        "fitted for all epochs and dropped",
        "reading hidden states from the disk keeps up with the fit, writing them with the capture",
    ]


def _rate(rate: Rate) -> str:
    if rate.tokens_per_s is not None:
        return f"{rate.tokens_per_s:g} tokens/s, {rate.kind}, scaled to this target ({rate.source})"
    return f"at {rate.efficiency:.0%}, a {rate.kind} ({rate.source})"
