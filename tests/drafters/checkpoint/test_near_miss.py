"""Near names: same ending first, experts never, and fast on a quantized model's 200,000 names."""

import time

from k25serve.drafters.checkpoint import near_misses


def test_same_ending_first() -> None:
    names = ["a.b.embed_tokens.weight", "language_model.model.embed_tokens.weight", "fc.weight"]
    assert near_misses("model.embed_tokens.weight", names) == [
        "a.b.embed_tokens.weight",
        "language_model.model.embed_tokens.weight",
    ]


def test_spelling_and_nothing() -> None:
    assert near_misses("lm_head.weight", ["lm_heads.weights"]) == ["lm_heads.weights"]
    assert near_misses("lm_head.weight", ["zzz"]) == []


def test_fast_on_many_names() -> None:
    names = [f"model.layers.{layer}.mlp.experts.{e}.up_proj.weight_packed" for layer in range(60) for e in range(3000)]
    clock = time.perf_counter()
    assert near_misses("lm_head.weight", [*names, "lm_hed.weight"]) == ["lm_hed.weight"]
    assert time.perf_counter() - clock < 2
