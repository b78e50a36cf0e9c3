import importlib

import pytest

from k25serve.patches.hooks.capture_limits import LIMITS, hindrance

RIGHT = {"disable_radix_cache": True, "chunked_prefill_size": -1}
WRONG = {
    "disable_radix_cache": False,
    "speculative_algorithm": "NGRAM",
    "enable_dp_attention": True,
    "dp_size": 2,
    "pp_size": 2,
    "attn_cp_size": 2,
    "dcp_size": 2,
    "enable_prefill_cp": True,
    "enable_layernorm_sp": True,
    "moe_dense_tp_size": 1,
    "moe_a2a_backend": "deepep",
    "enable_attn_tp_input_scattered": True,
    "enable_two_batch_overlap": True,
    "enable_single_batch_overlap": True,
}


def test_an_engine_that_can():
    assert hindrance(RIGHT, prefill_graphs=False) is None
    assert hindrance(RIGHT | {limit.name: limit.wanted for limit in LIMITS}, prefill_graphs=False) is None
    assert hindrance(RIGHT | {"moe_a2a_backend": None, "chunked_prefill_size": 0}, prefill_graphs=False) is None


@pytest.mark.parametrize("name", [limit.name for limit in LIMITS])
def test_one_that_cannot_is_told_the_argument_its_value_and_the_remedy(name):
    told = hindrance(RIGHT | {name: WRONG[name]}, prefill_graphs=False)
    assert told.startswith(f"{name} is {WRONG[name]!r}: ")
    assert "; start with" in told or "; set speculation" in told


@pytest.mark.parametrize("size", [4096, None])
def test_chunks(size):
    told = hindrance(RIGHT | {"chunked_prefill_size": size}, prefill_graphs=False)
    assert told == (
        f"chunked_prefill_size is {size}: a prompt would come in pieces; start with --chunked-prefill-size -1"
    )


def test_graphs_of_prefill():
    assert hindrance(RIGHT, prefill_graphs=True).endswith("start with --disable-prefill-cuda-graph")


@pytest.mark.usefixtures("sglang_on_cpu")
def test_every_argument_is_sglangs():
    """One that SGLang renamed would not be looked at any more."""
    arguments = importlib.import_module("sglang.srt.server_args").ServerArgs(model_path="none")
    names = (*(limit.name for limit in LIMITS), "chunked_prefill_size")
    assert [name for name in names if not hasattr(arguments, name)] == []
