"""Rule `cost`: what the drafter takes of the machine, by arithmetic. An estimate, never a reason to refuse."""

import math

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.report import Judgement, passed, warned

KV_BYTES = 2  # bf16
LENT_OR_IDLE = ("embed_tokens.weight", "d2t", "t2d")


def judge_cost(facts: Facts) -> Judgement:
    """KV bytes a token, parameters read each draft step, and the time that the reading takes at least."""
    tp, draft_kv, target_kv = facts.options.tp, draft_kv_bytes(facts), target_kv_bytes(facts)
    read = {name: stored[-1] for name, stored in facts.named.items() if name and name not in LENT_OR_IDLE}
    tensors = [facts.drafter.tensor(name) for name in read.values()]
    parameters, weights = sum(t.elements for t in tensors), sum(t.nbytes for t in tensors)
    if "lm_head.weight" not in read:
        parameters, weights = parameters + facts.target.head.elements, weights + facts.target.head.nbytes
    step_ms = 1000 * weights / tp / facts.options.bandwidth
    time = f"at least {step_ms:.3f} ms" if step_ms >= 0.001 else "under 0.001 ms"
    told = (
        f"{parameters / 1e6:.1f} M parameters; KV {draft_kv} bytes a token and rank at tp {tp}, "
        f"the target's {target_kv}; "
        f"a draft step reads {weights / tp / 1e6:.1f} MB a rank, {time} at "
        f"{facts.options.bandwidth / 1e12:.1f} TB/s"
    )
    if draft_kv > target_kv:
        return warned(
            f"{told}: the drafter's KV is larger than the target's",
            "serve fewer tokens at once, or use a drafter with fewer KV heads or MLA",
        )
    return passed(told)


def draft_kv_bytes(facts: Facts) -> int:
    """Bytes a token and rank: heads are split over ranks, an MLA latent is held by each."""
    config, tp = facts.config, facts.options.tp
    if not facts.is_llama:
        return int((config["kv_lora_rank"] + config["qk_rope_head_dim"]) * KV_BYTES)
    heads = math.ceil(config["num_key_value_heads"] / tp)
    return int(2 * heads * facts.head_dim * KV_BYTES * config["num_hidden_layers"])


def target_kv_bytes(facts: Facts) -> int:
    """The same for the target, whose cache is MLA's."""
    width = facts.target.size("kv_lora_rank") + facts.target.size("qk_rope_head_dim")
    return width * KV_BYTES * facts.target.size("num_hidden_layers")
