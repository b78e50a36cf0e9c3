import pytest

from k25serve.bench.gateway.bars import MEASURES, ahead, cancel_text, disturbed, values, verdicts

CANCEL = {"before_headers": [0.4, 1.0, 0.5], "non_streaming": [0.4, 0.5, 0.6]}
BEHAVIOUR = {"cancel_ms": CANCEL, "fields": ["rid changed"], "on_503": {"status": 503, "attempts": 1, "ms": 2.0}}
BASE = {"c1_ttft_p50_ms": 0.1, "c1_ttft_p99_ms": 0.2, "errors": 0}
OURS = {"chunk_us": 25.0, "whole_us": 150.0, "c1_ttft_p50_ms": 0.5, "c1_ttft_p99_ms": 0.9, "errors": 0}
MANY = {"rss_half_mb": 70.0, "rss_many_mb": 70.5, "many_requests": 100_000}


def rounds(first=None, **peers):
    ours = [OURS | {"behaviour": BEHAVIOUR} | (first or {}), OURS, OURS | MANY]
    return {"direct": [BASE] * 3, "k25serve": ours} | {name: [OURS | peer] * 3 for name, peer in peers.items()}


def by_name(found):
    return {verdict.name: verdict for verdict in found}


def test_all_bars_hold():
    found = verdicts(rounds())
    assert {verdict.name for verdict in found if verdict.met is not True} == set()
    assert by_name(found)["CPU us per streamed chunk"].aim == "aim 20: missed"
    assert by_name(found)["added TTFT p50 ms, C=1"].value == "0.40"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"fields": ["rid changed", "user lost"]}, "request fields lost or changed"),
        ({"on_503": {"attempts": 2}}, "attempts on a 503"),
        ({"cancel_ms": CANCEL | {"before_headers": [0.1, None, 0.1]}}, "engine freed, before_headers"),
        ({"cancel_ms": CANCEL | {"non_streaming": [0.1, 5.1, 0.1]}}, "engine freed, non_streaming"),
    ],
)
def test_behaviour_misses_its_bar(change, name):
    found = verdicts(rounds({"behaviour": BEHAVIOUR | change}))
    assert [verdict.name for verdict in found if verdict.met is False] == [name]


def test_memory_that_grows():
    grown = rounds()
    grown["k25serve"][-1] = OURS | MANY | {"rss_many_mb": 79.0}
    assert by_name(verdicts(grown))["memory is flat"].met is False
    assert by_name(verdicts(grown))["memory after many requests, MB"].met is True


def test_what_was_not_measured_is_neither_met_nor_missed():
    short = {"direct": [BASE], "k25serve": [OURS]}
    assert by_name(verdicts(short))["memory after many requests, MB"].met is None


def test_added_is_over_direct_in_the_same_round():
    measure = next(measure for measure in MEASURES if measure.key == "c1_ttft_p50_ms")
    moving = {"direct": [{"c1_ttft_p50_ms": x} for x in (0.1, 0.3)], "raw": [{"c1_ttft_p50_ms": x} for x in (0.5, 0.6)]}
    assert values(moving, "raw", measure) == pytest.approx([0.4, 0.3])


def test_peers_that_are_ahead_are_named():
    lines = ahead(rounds(smg={"chunk_us": 15.0}, other={"chunk_us": 24.0}, slow={"chunk_us": 99.0}))
    assert lines == [
        "smg is ahead in CPU us per streamed chunk: 15.00 against 25.00",
        "other is ahead in CPU us per streamed chunk: 24.00 against 25.00 (under 20 %: not settled)",
    ]


def test_a_machine_with_other_work_is_told():
    visits = [{"others_cpus": busy} for busy in (0.02, 0.97)]
    assert disturbed({"direct": visits[:1], "raw": visits}) == [
        "raw, round 2: the machine was busy with something else, 0.97 CPUs: its p99 is not settled"
    ]


def test_the_worst_repeat_counts():
    assert cancel_text([0.5, 2.25, 1.0]) == "2.2 ms"
    assert cancel_text([0.5, None, 1.0]) == "never (1 of 3)"
