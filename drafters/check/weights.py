"""Rules `names`, `shapes`, `hidden-size` and `head-dim`: the tensors, by their headers."""

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.layout import HARMLESS, OWN_RULE, dimensions, expected_tensors
from k25serve.drafters.check.report import Judgement, passed, refused
from k25serve.drafters.checkpoint import near_misses

SHOWN = 4


def judge_names(facts: Facts) -> Judgement:
    """Every tensor that the draft model has is stored, and every stored one is taken.

    SGLang's load_weights drops names that it does not know, and what no name fills keeps torch.empty's memory.
    """
    expected = expected_tensors(facts.architecture, facts.config, facts.aux_states)
    missing = [name for name in expected.shapes if name not in facts.named]
    extra = [
        stored
        for name, stored_names in facts.named.items()
        for stored in stored_names
        if name not in expected and name not in OWN_RULE and not HARMLESS.search(stored)
    ]
    twice = [stored for name, stored in facts.named.items() if name and len(stored) > 1]
    if missing:
        near = near_misses(missing[0], extra)
        hint = f" (near: {', '.join(near)})" if near else ""
        return refused(f"missing, so left random: {_list(missing)}{hint}", _from_own_format(facts))
    if extra:
        return refused(f"unknown, so dropped without a word: {_list(extra)}", _from_own_format(facts))
    if twice:
        return refused(f"stored twice: {_list([' and '.join(names) for names in twice])}", "delete one of each pair")
    return passed(f"{len(expected.shapes)} tensors, each stored once under a name that SGLang takes")


def judge_shapes(facts: Facts) -> Judgement:
    """Each tensor has the shape that config.json gives it."""
    expected = expected_tensors(facts.architecture, facts.config, facts.aux_states)
    fc = facts.find("fc.weight")
    fc_in = fc.shape[-1] if fc is not None else 0
    sizes = dimensions(facts.architecture, facts.config, facts.head_dim, facts.target_hidden, fc_in)
    wrong = []
    for name, symbols in expected.shapes.items():
        tensor, shape = facts.find(name), tuple(sizes[symbol] for symbol in symbols)
        if tensor is not None and tensor.shape != shape:
            wrong.append(f"{tensor.name} is {list(tensor.shape)}, not {list(shape)}")
    head, hidden = facts.find("lm_head.weight"), facts.config["hidden_size"]
    if head is not None and head.shape[1:] != (hidden,):
        wrong.append(f"{head.name} is {list(head.shape)}, not [draft vocabulary, {hidden}]")
    if wrong:
        return refused(
            "; ".join(wrong[:SHOWN]), "config.json and weights are of different models: take both from one source"
        )
    return passed(f"as config.json says: hidden {hidden}, intermediate {facts.config['intermediate_size']}")


def judge_hidden_size(facts: Facts) -> Judgement:
    """The drafter's width is the target's, since SGLang lends it the target's embedding; fc takes whole states."""
    config, target = facts.config, facts.target.size("hidden_size")
    if config.get("target_hidden_size") not in (None, target):
        return refused(
            f"target_hidden_size {config['target_hidden_size']}, the target's hidden_size is {target}",
            "use a drafter that was trained for this target",
        )
    if config["hidden_size"] != target:
        return refused(
            f"hidden_size {config['hidden_size']}, the target's is {target}",
            "use a drafter that was trained for this target: no adapter changes a width",
        )
    fc = facts.find("fc.weight")
    if fc is not None and (len(fc.shape) != 2 or fc.shape[1] % target):
        return refused(
            f"{fc.name} is {list(fc.shape)}: its inputs are not a whole number of states of {target}",
            "use a drafter that was trained for this target",
        )
    return passed(f"{target}, as the target's; fc takes {facts.aux_states} states")


def judge_head_dim(facts: Facts) -> Judgement:
    """The engine's head_dim is the weights'. Absent, it is hidden_size // heads: 7168 // 64 = 112, not 128."""
    config = facts.config
    if not facts.is_llama:
        return passed(
            f"MLA: {config['qk_nope_head_dim']} + {config['qk_rope_head_dim']}, values {config['v_head_dim']}"
        )
    stored, engine = facts.head_dim, facts.engine_head_dim
    if stored != engine:
        return refused(
            f"head_dim is {config.get('head_dim', 'absent')}, so {engine}; the weights have {stored} "
            f"({stored * config['num_attention_heads']} rows for {config['num_attention_heads']} heads)",
            f"{facts.adapt_command('kimi_k2')}, or set head_dim to {stored} in config.json",
        )
    return passed(f"{engine}, {'as written' if config.get('head_dim') else 'as hidden_size // heads'}")


def _from_own_format(facts: Facts) -> str:
    return f"adapt from its own format: {facts.adapt_command('eagle')}, which names what it cannot place"


def _list(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
