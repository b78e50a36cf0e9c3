"""Bytes and FLOP of a step against sums by hand, the user's efficiency, the named gap, and the layouts."""

from pathlib import Path

import orjson
import pytest

from k25serve.bench.plan.architecture import load_architecture
from k25serve.bench.plan.calibration import AllReduce, load_calibration
from k25serve.bench.plan.layout import compare_layouts, narrower
from k25serve.bench.plan.model import Planner
from k25serve.bench.plan.roofline import gaps_from_terms, gaps_from_trace, load_hardware, roofline
from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse
from k25serve.server.errors import UserError

K25, PRO6000 = load_architecture("kimi-k2.5"), load_hardware("rtx-pro-6000-server")


def test_bytes_of_a_single_decode_step_by_hand() -> None:
    line = roofline(K25, PRO6000, ranks=8, concurrency=1, context=0)
    expert = 3 * 7168 * 2048
    assert line.bytes_by_part["routed experts"] == pytest.approx(60 * 8 * expert * 4.5 / 8 / 8)
    assert line.bytes_by_part["shared experts"] == pytest.approx(60 * expert * 2 / 8)
    assert line.bytes_by_part["attention, every rank"] == pytest.approx(61 * 7168 * (1536 + 576) * 2)
    up = 64 * (1536 * 192 + 512 * 256 + 128 * 7168)
    assert line.bytes_by_part["attention, split"] == pytest.approx(61 * up * 2 / 8)
    assert line.bytes_by_part["KV cache"] == 0
    assert line.bytes == pytest.approx(6.03e9, rel=0.005)


def test_the_users_efficiency() -> None:
    """The user computed 31.8 % at 12.1 ms a step."""
    line = roofline(K25, PRO6000, ranks=8, concurrency=1, context=0)
    assert line.ideal_ms / 12.1 == pytest.approx(0.318, abs=0.01)
    assert line.ideal_ms == line.memory_ms > 50 * line.compute_ms


def test_whole_model_fits_its_known_size() -> None:
    """All experts touched: about the 74 GB a GPU of the checkpoint's 595 GB, embedding aside."""
    line = roofline(K25, PRO6000, ranks=8, concurrency=100_000, context=0)
    replicated = line.bytes_by_part["attention, every rank"] + line.bytes_by_part["router, every rank"]
    assert line.bytes - replicated == pytest.approx(74e9, rel=0.02)


def test_context_and_drafts() -> None:
    plain = roofline(K25, PRO6000, ranks=8, concurrency=4, context=16384)
    assert plain.bytes_by_part["KV cache"] == 4 * 16384 * 61 * 576 * 2
    verify = roofline(K25, PRO6000, ranks=8, concurrency=4, context=16384, k=3)
    assert verify.tokens == 16
    assert verify.bytes_by_part["KV cache"] == plain.bytes_by_part["KV cache"]
    assert verify.flop == pytest.approx(4 * plain.flop)
    assert verify.bytes_by_part["routed experts"] / plain.bytes_by_part["routed experts"] == pytest.approx(
        109.8 / 31, rel=0.01
    )


def test_gaps_of_the_users_step_name_the_links() -> None:
    planner = Planner.build(load_calibration("user-vllm-0.16"))
    line = roofline(K25, PRO6000, 8, 1, 0)
    terms = planner.curve.terms(1, 0)
    largest, rest = gaps_from_terms(terms.total, terms.all_reduce, line)
    assert largest.name.startswith("all-reduce")
    assert largest.ms + rest.ms + line.ideal_ms == pytest.approx(terms.total)


def test_gaps_of_a_trace_add_up(tmp_path: Path) -> None:
    report = analyse([synthetic.write(tmp_path / "a.json", synthetic.decode_steps(3, 61))])
    line = roofline(K25, PRO6000, 8, 1, 0)
    gaps = gaps_from_trace(report, line)
    (decode,) = report.ranks[0].modes
    assert sum(gap.ms for gap in gaps) + line.ideal_ms == pytest.approx(decode.span_ms)
    assert {gap.name: gap.ms for gap in gaps}["communication, exposed"] == pytest.approx(61 * 0.040)
    assert [gap.ms for gap in gaps] == sorted((gap.ms for gap in gaps), reverse=True)


def test_model_from_its_own_config(tmp_path: Path) -> None:
    keys = K25.model_dump(exclude={"expert_bits", "dense_bits", "kv_bits"})
    path = tmp_path / "config.json"
    int4 = {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}}}
    wrapped = {"model_type": "kimi_k25", "text_config": {**keys, "rope_theta": 1, "quantization_config": int4}}
    path.write_bytes(orjson.dumps(wrapped))
    assert load_architecture(str(path)) == K25
    path.write_bytes(orjson.dumps(keys))
    assert load_architecture(str(path)).expert_bits == 16
    path.write_bytes(orjson.dumps({**keys, "quantization_config": {"quant_method": "fp8"}}))
    with pytest.raises(UserError, match="only that form is known"):
        load_architecture(str(path))
    path.write_bytes(orjson.dumps({"hidden_size": 8}))
    with pytest.raises(UserError, match="'num_hidden_layers' is missing"):
        load_architecture(str(path))
    path.write_text("{")
    with pytest.raises(UserError, match=r"not JSON: line 1"):
        load_architecture(str(path))
    with pytest.raises(UserError, match=r"--model gpt: none of kimi-k2\.5"):
        load_architecture("gpt")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 0}, "hidden_size = 0"),
        ({"hidden_size": "wide"}, "hidden_size = 'wide'"),
        ({"num_experts_per_tok": 1000}, "num_experts_per_tok 1000 is above n_routed_experts"),
        ({"first_k_dense_replace": 62}, "first_k_dense_replace 62 is above num_hidden_layers"),
        ({"text_config": 5}, "text_config holds no mapping"),
        ({"quantization_config": 5}, "only that form is known"),
        (
            {"quantization_config": {"config_groups": {"a": {"weights": {"num_bits": 4, "group_size": 0}}}}},
            "only that form is known",
        ),
        (
            {"quantization_config": {"config_groups": {"a": {"weights": {"num_bits": -40, "group_size": 32}}}}},
            "expert_bits = -39.5",
        ),
    ],
    ids=str,
)
def test_a_fault_in_a_config_names_file_key_and_value(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "config.json"
    keys = K25.model_dump(exclude={"expert_bits", "dense_bits", "kv_bits"})
    path.write_bytes(orjson.dumps({**keys, **change}))
    with pytest.raises(UserError, match=message) as caught:
        load_architecture(str(path))
    assert str(caught.value).startswith(f"--model {path}: ")


def test_a_ring_over_half_the_ranks() -> None:
    link = narrower(AllReduce(alpha_us=14.0, beta_us_per_kib=0.14, source="x"), 8, 4)
    assert link.alpha_us == pytest.approx(6.0)  # 6 hops instead of 14
    assert link.beta_us_per_kib == pytest.approx(0.14 * (2 * 3 / 4) / (2 * 7 / 8))


def test_layouts_trade_weights_for_links() -> None:
    planner = Planner.build(load_calibration("rtx6kpro-k26-v4"))
    slow = AllReduce(alpha_us=500.0, beta_us_per_kib=0.0, source="x")
    free = AllReduce(alpha_us=0.0, beta_us_per_kib=0.0, source="x")
    normal = compare_layouts(planner.curve, PRO6000, 8, 1)
    assert normal.tensor_ms == pytest.approx(planner.curve.step_ms(1, 0))
    # With links that cost nothing over four ranks, one stream still reads twice the split weights.
    assert compare_layouts(planner.curve, PRO6000, 8, 1, free).speedup > normal.speedup
    assert compare_layouts(planner.curve, PRO6000, 8, 1, slow).speedup < 0.3
    costly = Planner.build(load_calibration("rtx6kpro-k26-v4"), link=slow)
    assert compare_layouts(costly.curve, PRO6000, 8, 1).speedup > 1.5
