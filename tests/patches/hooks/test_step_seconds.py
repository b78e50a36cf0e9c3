"""Timing of stages, with SGLang's calls and GPU events played."""

import time
from types import SimpleNamespace

import pytest

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import rank as rank_module
from k25serve.patches.hooks import step_seconds
from k25serve.patches.hooks.event_timer import EVERY, EventTimer, random_gap
from k25serve.patches.hooks.rank import Rank
from k25serve.patches.hooks.step_seconds import StepSeconds, WallTimer
from k25serve.patches.hooks.tally import Tally


class Gpu:
    """A GPU's clock: events are passed when it says so."""

    def __init__(self):
        self.now, self.passed, self.made = 0.0, 0.0, 0

    def event(self):
        self.made += 1
        return Event(self)


class Event:
    def __init__(self, gpu):
        self.gpu, self.at = gpu, None

    def record(self):
        self.at = self.gpu.now

    def query(self):
        return self.at <= self.gpu.passed

    def elapsed_time(self, end):
        assert end.query(), "reading an event that is not passed would wait for the GPU"
        return (end.at - self.at) * 1e3


def always():
    return 1


def run(timer, gpu, mode, seconds):
    """One stretch of the CPU that launches and the GPU that is done at once."""
    begun = timer.start(mode)
    gpu.now += seconds
    if begun is not None:
        timer.stop(begun, mode)
    gpu.passed = gpu.now


def test_events_are_read_when_the_gpu_has_passed_them_and_used_again():
    gpu, told = Gpu(), []
    timer = EventTimer(lambda seconds, mode, weight: told.append((round(seconds, 6), mode, weight)), gpu.event, always)
    for step in range(100):
        mode = "decode" if step % 2 else "draft"
        begun = timer.start(mode)
        gpu.now += 0.010
        timer.stop(begun, mode)
        gpu.passed = gpu.now - 0.015  # the CPU runs ahead by more than a step
    assert len(told) == 97
    assert set(told) == {(0.01, "decode", 1), (0.01, "draft", 1)}
    assert gpu.made <= 6
    gpu.passed = gpu.now
    timer.drain()
    assert [mode for _, mode, _ in told[-2:]] == ["draft", "decode"]
    assert len(told) == 100


def test_nothing_is_told_before_the_gpu_is_done():
    gpu, told = Gpu(), []
    gpu.passed = -1.0
    timer = EventTimer(lambda *found: told.append(found), gpu.event)
    timer.stop(timer.start("extend"), "extend")
    timer.drain()
    assert told == []
    gpu.passed = 0.0
    timer.drain()
    assert told == [(0.0, "extend", 1)]


def test_a_timed_stretch_stands_for_those_since_the_last_one():
    """The first of each mode is timed; a mode's turn does not depend on the others'."""
    gpu, told = Gpu(), []
    timer = EventTimer(lambda seconds, mode, weight: told.append((mode, weight)), gpu.event, lambda: 4)
    for _ in range(10):
        run(timer, gpu, "draft", 0.001)
        run(timer, gpu, "target_verify", 0.005)
    run(timer, gpu, "decode", 0.002)
    timer.drain()
    expected = [(mode, weight) for weight in (1, 4, 4) for mode in ("draft", "target_verify")]
    assert told == [*expected, ("decode", 1)]
    assert gpu.made <= 4, "those that are not timed take no event"


def test_of_extend_all_are_timed():
    gpu, told = Gpu(), []
    timer = EventTimer(lambda seconds, mode, weight: told.append((mode, weight)), gpu.event, lambda: 4)
    for _ in range(9):
        run(timer, gpu, "extend", 0.1)
        run(timer, gpu, "decode", 0.001)
    timer.drain()
    assert told.count(("extend", 1)) == 9
    assert [one for one in told if one[0] == "decode"] == [("decode", 1), ("decode", 4), ("decode", 4)]


def test_weights_of_stretches_that_the_gpu_has_not_done_are_kept():
    """The CPU may be many steps ahead: what a stretch stands for is settled when it ends, not when it is read."""
    gpu, told = Gpu(), []
    gpu.passed = -1.0
    timer = EventTimer(lambda seconds, mode, weight: told.append(weight), gpu.event, iter([2, 7, 3, 9]).__next__)
    for _ in range(1 + 2 + 7 + 3):
        begun = timer.start("decode")
        gpu.now += 0.001
        if begun is not None:
            timer.stop(begun, "decode")
    assert told == []
    gpu.passed = gpu.now
    timer.drain()
    assert told == [1, 2, 7, 3]


def test_a_sample_counts_all_and_sums_right():
    """Through the histogram that is scraped: counts to within one gap, sums to within what chance allows.

    Each 40th step is ten times as long, as where an engine logs; a fixed gap of 4 would meet all of those or none.
    """
    from prometheus_client import CollectorRegistry, Histogram

    gpu, registry, steps = Gpu(), CollectorRegistry(), 40_000
    histogram = Histogram("t", "x", ["mode"], buckets=(0.005, 0.05), registry=registry)
    tally = Tally(histogram, ("decode",))
    timer = EventTimer(tally.add, gpu.event)
    for step in range(steps):
        run(timer, gpu, "decode", 0.010 if step % 40 == 0 else 0.001)
    timer.drain()
    tally.flush()
    count = registry.get_sample_value("t_count", {"mode": "decode"})
    assert 0 <= steps - count < 2 * EVERY
    total = registry.get_sample_value("t_sum", {"mode": "decode"})
    assert total == pytest.approx(steps * (39 * 0.001 + 0.010) / 40, rel=0.1)  # eight standard deviations
    slow = count - registry.get_sample_value("t_bucket", {"mode": "decode", "le": "0.005"})
    assert slow == pytest.approx(steps / 40, rel=0.4)


def test_gaps_are_four_on_average():
    gap = random_gap()
    drawn = [gap() for _ in range(7000)]
    assert set(drawn) == set(range(1, 2 * EVERY))
    assert sum(drawn) / len(drawn) == pytest.approx(EVERY, rel=0.05)


@pytest.fixture
def told(monkeypatch):
    """What reaches the tally of a row on the first rank, with /metrics on."""
    found = []
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "set")
    monkeypatch.setattr(rank_module, "this_rank", lambda: Rank(0, 0))
    flushed = []

    class Told:
        def __init__(self, histogram, labels):
            assert labels == step_seconds.MODES

        def add(self, seconds, mode):
            found.append((mode, seconds))

        def flush(self):
            flushed.append(len(found))

    monkeypatch.setattr(step_seconds, "Tally", Told)
    monkeypatch.setattr("prometheus_client.Histogram", lambda *args, **kwargs: None)
    return SimpleNamespace(found=found, flushed=flushed)


def make():
    return StepSeconds(Context(Here("0.5.23", "cpu", "scheduler"), {}))


def batch(mode):
    return SimpleNamespace(forward_mode=SimpleNamespace(name=mode))


def nothing(*args, **kwargs):
    """A stage that takes no time."""


def work(*args, **kwargs):
    time.sleep(0.002)
    return "result", args, kwargs


@pytest.mark.parametrize(
    ("mode", "ours"),
    [
        ("EXTEND", "extend"),
        ("MIXED", "extend"),
        ("DECODE", "decode"),
        ("TARGET_VERIFY", "target_verify"),
        ("IDLE", None),
        ("PREBUILT", None),
    ],
)
def test_the_targets_forward_by_mode(told, mode, ours):
    row = make()
    assert row.forward(work, "worker", batch(mode), pp_proxy_tensors=None)[0] == "result"
    assert [name for name, _ in told.found] == ([ours] if ours else [])
    if ours:
        assert told.found[0][1] >= 0.002


def test_verify_hands_over_a_forward_batch_instead(told):
    row = make()
    row.forward(work, "worker", None, batch("TARGET_VERIFY"), is_verify=True)
    row.forward(work, "worker", None, forward_batch=batch("TARGET_VERIFY"), is_verify=True)
    row.forward(work, "worker", batch=None, forward_batch=batch("TARGET_VERIFY"))
    row.forward(work, "worker", batch=batch("DECODE"))
    assert [mode for mode, _ in told.found] == ["target_verify"] * 3 + ["decode"]


def test_the_drafters_stages_and_the_flush_when_idle(told):
    row = make()
    assert row.draft(work, "worker", 1)[1] == ("worker", 1)
    row.draft_extend(work, "worker", 1, 2, kv_loc_plan=None)
    assert row.idle(lambda scheduler: "slept", "scheduler") == "slept"
    assert [mode for mode, _ in told.found] == ["draft", "draft_extend"]
    assert told.flushed == [2]
    assert row.facts() == {"timer": "WallTimer"}


def test_a_stage_that_fails_is_not_counted(told):
    def fail(*args):
        raise ValueError("theirs")

    with pytest.raises(ValueError, match="theirs"):
        make().draft(fail, "worker")
    assert told.found == []


@pytest.mark.parametrize(("rank", "metrics"), [(Rank(1, 0), "set"), (Rank(0, 1), "set"), (Rank(0, 0), "")])
def test_other_ranks_and_no_metrics_only_pass_calls_on(told, monkeypatch, rank, metrics):
    monkeypatch.setattr(rank_module, "this_rank", lambda: rank)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", metrics)
    row = make()
    assert row.draft(work, "worker")[0] == "result"
    assert row.idle(lambda scheduler: "slept", "scheduler") == "slept"
    assert told.found == []
    assert row.facts()["timer"].startswith("none")


def test_every_stage_is_timed_on_the_cpu(told):
    row = make()
    for _ in range(9):
        row.forward(nothing, "worker", batch("DECODE"))
    assert [mode for mode, _ in told.found] == ["decode"] * 9


def test_on_a_gpu_a_stage_that_is_not_timed_is_passed_on(told):
    """The row itself, with a GPU's events played: results are the same, and told are the weights."""
    row, gpu, weights = make(), Gpu(), []
    row._decide()
    row._timer = EventTimer(lambda seconds, mode, weight: weights.append((mode, weight)), gpu.event, lambda: 4)
    verify = batch("TARGET_VERIFY")
    for _ in range(5):
        assert row.draft(work, "worker", 1)[1] == ("worker", 1)
        assert row.forward(work, "worker", None, verify)[0] == "result"
    assert row.idle(lambda scheduler: "slept", "scheduler") == "slept"
    assert weights == [("draft", 1), ("target_verify", 1), ("draft", 4), ("target_verify", 4)]


def cost_of_a_step(row, steps=3000):
    """Microseconds of CPU of the three stages of one step, through the row, without SGLang's own."""
    verify, begun = batch("TARGET_VERIFY"), time.process_time()
    for _ in range(steps):
        row.draft(nothing, "worker")
        row.forward(nothing, "worker", None, verify, is_verify=True)
        row.draft_extend(nothing, "worker", 1, 2)
    return (time.process_time() - begun) / steps * 1e6


def test_the_cost_of_a_step_on_the_cpu(told):
    """Forward, draft and draft_extend of one step, through the row: below 20 us, without SGLang's own."""
    row = make()
    row._decide()
    row._timer = WallTimer(lambda seconds, mode: None)
    assert min(cost_of_a_step(row) for _ in range(5)) < 20


def test_what_a_step_costs_where_it_is_not_timed(told):
    """On a GPU three steps of four cost this alone: below 5 us a step of three stages."""
    row = make()
    row._decide()
    row._timer = EventTimer(lambda seconds, mode, weight: None, Gpu().event, lambda: 10**9)
    assert min(cost_of_a_step(row) for _ in range(5)) < 5
