from types import SimpleNamespace

import pytest

from k25serve.patches.reference import arguments

DEFAULTS = {
    "device": "cpu",
    "attention_backend": None,
    "prefill_attention_backend": None,
    "decode_attention_backend": None,
    "speculative_draft_attention_backend": None,
    "speculative_use_rejection_sampling": False,
    "enable_deterministic_inference": False,
}


@pytest.mark.parametrize("change", [{}, {"attention_backend": "torch_native"}])
def test_what_the_reference_serves_passes(change):
    arguments.check(SimpleNamespace(**DEFAULTS | change))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("device", "cuda"),
        ("attention_backend", "flex_attention"),
        ("prefill_attention_backend", "triton"),
        ("decode_attention_backend", "intel_amx"),
        ("speculative_draft_attention_backend", "triton"),
        ("speculative_use_rejection_sampling", True),
        ("enable_deterministic_inference", True),
    ],
)
def test_what_would_bypass_it_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"^{field}={value!r} is not in the CPU reference; "):
        arguments.check(SimpleNamespace(**DEFAULTS | {field: value}))


@pytest.mark.usefixtures("sglang_on_cpu")
def test_the_fields_are_sglangs_and_their_defaults_pass():
    from sglang.srt.server_args import prepare_server_args

    arguments.check(prepare_server_args(["--model-path", "any", "--device", "cpu"]))
