import pytest
from load_records.make import CELL, asked, failed, record

from k25serve.bench.load.record import Speculation, Tokens
from k25serve.bench.load.result import Clock
from k25serve.bench.load.validity import check_cell, check_client, check_clock, is_valid


def codes(*records) -> dict[str, str]:
    return {finding.code: finding.severity for finding in check_cell(CELL, records)}


def test_a_sound_cell_has_no_finding() -> None:
    assert codes(*(record(i) for i in range(20))) == {}


def test_one_token_each_is_short() -> None:
    """D04 (a)."""
    single = {"chunk_s": (0.1, 0.1), "chunk_kinds": "ad", "speculation": None, "ended_s": 0.101, "wall_ended": 1000.101}
    records = [record(i, tokens=Tokens(prompt=40, completion=1), **single) for i in range(3)]
    records = [one.model_copy(update={"wall_ended": one.wall_sent + 0.101}) for one in records]
    assert codes(*records) == {"short": "invalid", "counts": "invalid"}
    stopped = [one.model_copy(update={"finish_reason": "stop"}) for one in records]
    assert codes(*stopped) == {"short": "invalid"}


def test_the_ratio_is_told_and_borderline_passes() -> None:
    short = record(tokens=Tokens(prompt=40, completion=29), speculation=None, finish_reason="stop")
    [finding] = check_cell(CELL, [short])
    assert (finding.code, finding.severity) == ("short", "invalid")
    assert "0.935" in finding.detail
    assert codes(record(tokens=Tokens(prompt=40, completion=30), speculation=None, finish_reason="stop")) == {}


def test_no_usage() -> None:
    """D04 (c)."""
    assert codes(record(tokens=None, speculation=None)) == {"short": "invalid", "no_usage": "invalid"}


def test_few_failures_warn_and_more_invalidate() -> None:
    """D04 (d) and beyond."""
    good = [record(i) for i in range(97)]
    assert codes(*good, *(failed(97 + i) for i in range(3))) == {"failed": "warning"}
    assert codes(*good[:9], failed(9)) == {"failed": "invalid"}
    assert codes(failed()) == {"failed": "invalid"}


def test_tokens_counted_by_a_client() -> None:
    assert codes(record(tokens=Tokens(prompt=40, completion=31, source="retokenised"))) == {"retokenised": "invalid"}


@pytest.mark.parametrize(("completion", "found"), [(31, False), (30, False), (34, True), (20, True)])
def test_token_counts_must_fit_the_engine_s_steps(completion: int, found: bool) -> None:
    free = asked(ignore_eos=False, max_tokens=100)
    one = record(tokens=Tokens(prompt=40, completion=completion), asked=free, finish_reason="stop")
    assert ("counts" in codes(one)) is found


@pytest.mark.parametrize("completion", [30, 32])
def test_an_answer_cut_by_its_length_has_exactly_that_length(completion: int) -> None:
    assert codes(record(tokens=Tokens(prompt=40, completion=completion), speculation=None)) == {"counts": "invalid"}


def test_a_natural_end_is_not_short() -> None:
    free = asked(ignore_eos=False, max_tokens=500)
    assert codes(record(asked=free, finish_reason="stop")) == {}


@pytest.mark.parametrize("step", [0.5, -0.5])
def test_a_clock_step_inside_a_request(step: float) -> None:
    assert codes(record(wall_ended=1000.401 + step)) == {"clock": "invalid"}


def test_a_clock_that_is_being_slewed_is_no_step() -> None:
    assert check_clock(Clock(monotonic_s=3600, wall_s=3600 + 1.8), "run") == []
    assert not is_valid(check_clock(Clock(monotonic_s=3600, wall_s=3603), "run"))


def test_a_prompt_asked_twice() -> None:
    assert codes(record(1), record(1)) == {"repeated": "invalid"}


def test_a_stream_that_came_in_one_piece() -> None:
    assert codes(record(chunk_s=(0.4,) * 14)) == {"buffered": "invalid"}
    assert codes(record(chunk_s=(0.4, 0.4, 0.4), chunk_kinds="aud", speculation=None)) == {"buffered": "invalid"}


def test_doubts() -> None:
    slow_end = record(ended_s=0.6, wall_ended=1000.6)
    assert codes(slow_end) == {"tail": "warning"}
    assert codes(record(tokens=Tokens(prompt=40, completion=31, cached=30))) == {"cached": "warning"}
    [finding] = check_client(CELL, 0.95)
    assert finding.severity == "warning"
    assert check_client(CELL, 0.2) == []


def test_speculation_of_one_step_may_be_cut() -> None:
    tokens, counts = Tokens(prompt=40, completion=31), Speculation(steps=10, proposed=30, accepted=21)
    assert codes(record(tokens=tokens, speculation=counts)) == {}
