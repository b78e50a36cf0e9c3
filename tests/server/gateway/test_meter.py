import pytest
from prometheus_client import CollectorRegistry

from k25serve.server.gateway.acceptance import SpecStats
from k25serve.server.gateway.meter import RequestMeter
from k25serve.server.gateway.metrics import Metrics, Target
from k25serve.server.gateway.usage import NOTHING, TOKENS, UNREADABLE, Reading, Usage

TARGET = Target("sglang", "kimi", "true")
LABELS = TARGET._asdict()


@pytest.fixture
def metrics():
    return Metrics(CollectorRegistry())


@pytest.fixture
def value(metrics):
    def read(name, **labels):
        return metrics.registry.get_sample_value(f"k25serve_gateway_{name}", LABELS | labels)

    return read


def start(metrics, one_choice=True):
    return RequestMeter(metrics, TARGET, one_choice=one_choice, started=100.0)


def play(meter):
    """Ten verify steps of 20 ms after a prefill of 0.5 s: 1 + 32 tokens."""
    meter.called_engine(100.001)
    meter.code = 200
    meter.read(100.5, [NOTHING, TOKENS])
    for step in range(1, 11):
        meter.read(100.5 + 0.02 * step, [TOKENS, TOKENS])
    spec = SpecStats(steps=10, proposed=30, accepted=22, histogram=(1, 1, 3, 5))
    usage = Usage(prompt=40, cached=16, completion=33, reasoning=5)
    meter.read(100.701, [NOTHING, Reading(spec=spec, tail={}), Reading(usage=usage, tail={})])
    meter.answered(100.702)
    meter.finish(100.703, "ok")


def test_a_stream_by_hand(metrics, value):
    play(start(metrics))
    assert value("requests_total") == 1
    assert value("responses_total", code="200") == 1
    assert value("inflight") == 0
    assert value("ttft_seconds_sum") == pytest.approx(0.5)
    assert value("step_seconds_count") == 10
    assert value("step_seconds_sum") == pytest.approx(0.2)
    assert value("tpot_seconds_count") == 1
    assert value("tpot_seconds_sum") == pytest.approx(0.2 / 32)
    assert value("request_seconds_sum", outcome="ok") == pytest.approx(0.703)
    assert value("overhead_seconds_sum", phase="pre") == pytest.approx(0.001)
    assert value("overhead_seconds_sum", phase="post") == pytest.approx(0.001)
    kinds = {kind: value("tokens_total", kind=kind) for kind in ("prompt", "cached", "completion", "reasoning")}
    assert kinds == {"prompt": 40, "cached": 16, "completion": 33, "reasoning": 5}


def test_acceptance_by_hand(metrics, value):
    play(start(metrics))
    assert value("spec_steps_total") == 10
    assert value("spec_draft_tokens_total") == 30
    assert value("spec_accepted_tokens_total") == 22
    assert [value("spec_accept_hist_total", accepted=str(i)) for i in range(5)] == [1, 1, 3, 5, None]
    assert value("accept_length_count") == 1
    assert value("accept_length_sum") == pytest.approx(3.2)
    assert value("accept_length_bucket", le="3.0") == 0
    assert value("accept_length_bucket", le="3.25") == 1


def test_acceptance_by_position(metrics, value):
    """Of ten steps nine accepted the first draft token, eight the second, five the third."""
    play(start(metrics))
    positions = [value("spec_accepted_tokens_per_pos_total", position=str(i)) for i in range(4)]
    assert positions == [9, 8, 5, None]
    assert sum(positions[:3]) == value("spec_accepted_tokens_total")


@pytest.mark.parametrize(("usage", "wasted"), [(None, 3), (Usage(prompt=9, completion=8), 8)])
def test_tokens_that_nobody_read(metrics, value, usage, wasted):
    meter = start(metrics)
    meter.code = 200
    meter.read(100.1, [NOTHING, TOKENS, TOKENS])
    meter.read(100.2, [TOKENS, *([Reading(usage=usage, tail={})] if usage else [])])
    meter.finish(100.3, "disconnected")
    assert value("tokens_total", kind="wasted") == wasted


def test_no_verify_step_gives_no_sample(metrics, value):
    meter = start(metrics)
    meter.read(101.0, [TOKENS, Reading(usage=Usage(prompt=1, completion=1))])
    meter.finish(101.0, "ok")
    assert value("accept_length_count") == 0
    assert value("accept_length_sum") == 0
    assert value("spec_steps_total") == 0
    assert value("tpot_seconds_count") == 0


def test_several_choices_have_no_steps(metrics, value):
    play(start(metrics, one_choice=False))
    assert value("step_seconds_count") == 0
    assert value("tpot_seconds_count") == 0
    assert value("ttft_seconds_count") == 1
    assert value("accept_length_count") == 1


def test_whole_answers_have_no_token_times(metrics, value):
    meter = start(metrics)
    meter.read_whole(101.0, Reading(tokens=True, usage=Usage(1, 0, 9, 0), spec=SpecStats(4, 12, 4)))
    meter.code = 200
    meter.finish(101.0, "ok")
    assert value("ttft_seconds_count") == 0
    assert value("tpot_seconds_count") == 0
    assert value("tokens_total", kind="completion") == 9
    assert value("accept_length_sum") == 2.0


def test_inflight_while_it_runs(metrics, value):
    meter = start(metrics)
    assert value("inflight") == 1
    assert value("responses_total", code="200") is None
    meter.finish(101.0, "cancelled")
    assert value("inflight") == 0


@pytest.mark.parametrize(
    ("code", "token", "phase", "counted"), [(None, False, "prefill", "499"), (200, True, "decode", "200")]
)
def test_a_client_that_leaves_is_no_server_error(metrics, value, code, token, phase, counted):
    meter = start(metrics)
    meter.code = code
    if token:
        meter.read(100.1, [TOKENS])
    meter.finish(100.2, "disconnected")
    assert value("disconnects_total", phase=phase) == 1
    assert value("responses_total", code=counted) == 1
    assert value("request_seconds_count", outcome="disconnected") == 1


def test_nonsense_from_the_engine_is_counted(metrics):
    meter = start(metrics)
    meter.read(100.1, [UNREADABLE, Reading(spec_invalid=True), Reading(error=True)])
    read = metrics.registry.get_sample_value
    assert meter.engine_error
    assert read("k25serve_gateway_parse_skips_total", {"arm": "sglang"}) == 1
    for kind in ("spec_details", "error_frame"):
        assert read("k25serve_gateway_upstream_errors_total", {"arm": "sglang", "type": kind}) == 1


def test_help_texts_give_the_definitions(metrics):
    helps = {family.name: family.documentation for family in metrics.registry.collect()}
    assert "1 + accepted / steps" in helps["k25serve_gateway_accept_length"]
    assert "accepted / proposed" in helps["k25serve_gateway_spec_draft_tokens"]
    assert all("second" in text for name, text in helps.items() if name.endswith("_seconds"))


def test_two_apps_in_one_process_count_apart():
    first, second = Metrics(CollectorRegistry()), Metrics(CollectorRegistry())
    start(first)
    assert second.registry.get_sample_value("k25serve_gateway_requests_total", LABELS) is None


def test_whoever_asked_is_told_how_a_request_ended(metrics):
    told = []
    meter = RequestMeter(metrics, TARGET, one_choice=True, started=100.0, on_end=told.append)
    meter.read(100.5, [TOKENS])
    meter.read(100.7, [TOKENS, Reading(finish="length"), Reading(usage=Usage(40, 16, 3, 0), tail={})])
    meter.finish(100.8, "ok")
    meter.finish(100.9, "gateway_error")
    (ended,) = told
    assert (ended.outcome, ended.finish, ended.wasted, ended.usage) == ("ok", "length", 0, Usage(40, 16, 3, 0))
    assert (ended.ttft, ended.decode) == (pytest.approx(0.5), pytest.approx(0.2))


def test_an_answer_that_nobody_stayed_for_is_told_as_waste(metrics):
    told = []
    meter = RequestMeter(metrics, TARGET, one_choice=True, started=100.0, on_end=told.append)
    meter.read(100.5, [TOKENS, TOKENS])
    meter.finish(100.8, "disconnected")
    assert (told[0].wasted, told[0].usage, told[0].finish) == (2, None, None)
