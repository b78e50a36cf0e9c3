"""The steps that adapters are made of, but those on the vocabulary: each does one thing and says so."""

from typing import Any

from k25serve.drafters.adapters.data import Cast, Rows, Stored
from k25serve.drafters.adapters.draft import Draft, Job
from k25serve.drafters.check.aux_layers import KEY, default_layers, sglang_ids, stored_ids, trained_layers
from k25serve.drafters.check.facts import derived_context
from k25serve.drafters.check.layout import LLAMA
from k25serve.drafters.check.rope import rope_of
from k25serve.drafters.checkpoint import AdaptError
from k25serve.drafters.checkpoint.header import FLOATS

DTYPES = {"bf16": ("BF16", "bfloat16"), "f16": ("F16", "float16"), "f32": ("F32", "float32")}


def fit_target(draft: Draft, job: Job) -> Draft:
    """Widths and vocabulary are the target's: no adapter changes those. Without a target nothing is asked."""
    if job.target_or_none is None:
        return draft
    for key in ("hidden_size", "vocab_size"):
        own, target = draft.size(key), job.target.size(key)
        if own != target:
            raise AdaptError(f"{key} {own}, the target's is {target}; use a drafter that was trained for this target")
    return draft


def write_head_dim(draft: Draft, job: Job) -> Draft:
    """head_dim explicit, from the query projection's rows. Raises AdaptError where config and weights differ."""
    if draft.config["architectures"] != [LLAMA]:
        return draft
    heads, rows = draft.size("num_attention_heads"), draft.tensors["midlayer.self_attn.q_proj.weight"].shape[0]
    written = draft.config.get("head_dim")
    if rows % heads or written not in (None, rows // heads):
        raise AdaptError(
            f"head_dim: config.json says {written} and {heads} heads, q_proj has {rows} rows; "
            "take config and weights from one source"
        )
    return draft.with_config(f"head_dim {rows // heads} written down", head_dim=rows // heads)


def write_aux_layers(draft: Draft, job: Job) -> Draft:
    """Aux layers explicit in eagle_config, numbered so that SGLang captures the states that were trained on."""
    physical = aux_states(draft, job)
    ids = sglang_ids(physical)
    if ids is None:
        raise AdaptError(
            f"--aux-layers: state 1 of {physical} is the first layer's output, which SGLang cannot be told to capture: "
            "it shifts every list that begins with 1; serve it with vLLM"
        )
    draft = _tell_renumbered(draft, job, ids)
    return _with_aux(draft, {**_eagle(draft), KEY: ids, "use_aux_hidden_state": True}, ids, physical)


def write_vllm_aux_layers(draft: Draft, job: Job) -> Draft:
    """The same for vLLM, which takes them as they are and reads them at the top."""
    physical = aux_states(draft, job)
    draft = _tell_renumbered(draft, job, physical)
    draft = draft.with_config(f"aux layers {physical} at the top, where vLLM reads them", **{KEY: physical})
    return _with_aux(draft, {**_eagle(draft), KEY: physical, "use_aux_hidden_state": True}, physical, physical)


def aux_states(draft: Draft, job: Job) -> list[int]:
    """The physical states that the drafter was trained on. Raises AdaptError where nothing says which they are."""
    stored, _ = stored_ids(draft.config)
    ids, convention = job.options.aux_layers or stored, job.options.aux_convention
    layers = job.target.size("num_hidden_layers")
    if ids is None and job.options.accept_default_aux:
        ids, convention = default_layers(layers), "input"
    if not isinstance(ids, list | tuple) or not ids or not all(type(layer) is int for layer in ids):
        raise AdaptError(
            f"aux layers: config.json says {ids!r}; pass --aux-layers 2,30,58 (the trainer's ids), "
            "or --accept-default-aux for the engine's"
        )
    physical = trained_layers(ids, convention)
    width = draft.tensors["fc.weight"].shape[-1]
    if width != len(physical) * int(draft.config.get("target_hidden_size") or draft.size("hidden_size")):
        raise AdaptError(f"--aux-layers: {len(physical)} layers, but fc takes {width} inputs; give as many as it takes")
    if physical != sorted(set(physical)) or not all(1 <= layer < layers for layer in physical):
        raise AdaptError(
            f"--aux-layers {list(ids)} ({convention}): states {physical}, which must ascend and lie in "
            f"1 to {layers - 1}; correct them, or --aux-convention"
        )
    return physical


def reach_target_context(draft: Draft, job: Job) -> Draft:
    """max_position_embeddings as far as the target is served, since SGLang stops at start where it is less."""
    wanted = job.options.context_length or derived_context(job.target.text_config)
    return _reach(draft, wanted)


def reach_context_if_asked(draft: Draft, job: Job) -> Draft:
    """The same, only where a context length was given."""
    return draft if job.options.context_length is None else _reach(draft, job.options.context_length)


def mirror_rope(draft: Draft, job: Job) -> Draft:
    """Rotary embedding in both spellings, so that readers of before and after transformers 5 see the same."""
    rope = rope_of(draft.config)
    if rope["theta"] is None:
        raise AdaptError("config.json: rope_theta is missing; write the trainer's, none is guessed")
    scaling = {key: value for key, value in rope.items() if key not in ("theta", "type")}
    old = {"rope_type": rope["type"], **scaling} if rope["type"] else None
    new = {"rope_theta": rope["theta"], "rope_type": rope["type"] or "default", **scaling}
    return draft.with_config(
        "rotary embedding kept as trained, in both spellings",
        rope_theta=rope["theta"],
        rope_scaling=old,
        rope_parameters=new,
    )


def lend_lm_head(draft: Draft, job: Job) -> Draft:
    """A missing lm_head becomes the target's, where that was asked. Raises AdaptError where it is missing otherwise."""
    config = draft.config
    if "lm_head.weight" in draft.tensors or ("draft_vocab_size" in config and config["draft_vocab_size"] is None):
        if job.options.lend_lm_head:
            whose = "has its own lm_head" if "lm_head.weight" in draft.tensors else "borrows the target's head already"
            raise AdaptError(f"--lend-lm-head: the drafter {whose}, so nothing is lent; leave it out")
        return draft
    if not job.options.lend_lm_head:
        raise AdaptError(
            "tensor 'lm_head.weight' is missing, though draft_vocab_size is given: it would stay random; "
            "pass --lend-lm-head to use the target's"
        )
    size, head = config.get("draft_vocab_size", draft.size("vocab_size")), job.target.head
    if size == job.target.size("vocab_size"):
        return draft.with_config("draft_vocab_size null: SGLang lends the target's head", draft_vocab_size=None)
    d2t = draft.tensors.get("d2t")
    if d2t is None:
        raise AdaptError(
            f"d2t is missing, so the rows of {size} draft ids are unknown; get it from the drafter's source"
        )
    data = b"".join(d2t.chunks())
    ids = [i + int.from_bytes(data[8 * i : 8 * i + 8], "little", signed=True) for i in range(size)]
    rows = Rows(tuple((head, token) for token in ids))
    return draft.with_tensors(f"lm_head missing: the target's rows of the {size} draft ids", {"lm_head.weight": rows})


def cast_floats(draft: Draft, job: Job) -> Draft:
    """Every float tensor in the dtype that was asked for."""
    if job.options.dtype is None:
        return draft
    code, name = DTYPES[job.options.dtype]
    cast = {
        key: Cast(data.tensor, code)
        for key, data in draft.tensors.items()
        if isinstance(data, Stored) and data.dtype in FLOATS and data.dtype != code
    }
    draft = draft.with_config(f"dtype {name} written down", torch_dtype=name)
    return draft.with_tensors(f"{len(cast)} tensors cast to {name}", cast) if cast else draft


def _reach(draft: Draft, wanted: int) -> Draft:
    own = derived_context(draft.config)
    if own >= wanted:
        return draft
    rope = rope_of(draft.config)
    if rope["type"] and "original_max_position_embeddings" not in rope:
        raise AdaptError(
            f"--context-length {wanted}: with rope type {rope['type']} more positions would change the embedding "
            f"of all; serve with --context-length {own}"
        )
    return draft.with_config(
        f"max_position_embeddings {own} raised to {wanted}: positions beyond {own} are untrained",
        max_position_embeddings=wanted,
    )


def _eagle(draft: Draft) -> dict[str, Any]:
    found = draft.config.get("eagle_config")
    return found if isinstance(found, dict) else {}


def _tell_renumbered(draft: Draft, job: Job, written: list[int]) -> Draft:
    given, convention = job.options.aux_layers or stored_ids(draft.config)[0], job.options.aux_convention
    if given is None or list(given) == written:
        return draft
    why = "auto: a list that begins with 1 names the layers that states leave" if convention == "auto" else convention
    return draft.noting(f"aux layers {list(given)} ({why}) renumbered {written}")


def _with_aux(draft: Draft, eagle: dict[str, Any], ids: list[int], physical: list[int]) -> Draft:
    return draft.with_config(
        f"aux layers {ids} in eagle_config: states that enter layers {physical}", eagle_config=eagle
    )
