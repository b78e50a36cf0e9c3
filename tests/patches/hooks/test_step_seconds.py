"""Timing of stages, with SGLang's calls and GPU events played."""

import time
from types import SimpleNamespace

import pytest

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import rank as rank_module
from k25serve.patches.hooks import step_seconds
from k25serve.patches.hooks.event_timer import EventTimer
from k25serve.patches.hooks.rank import Rank
from k25serve.patches.hooks.step_seconds import StepSeconds, WallTimer


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


def test_events_are_read_when_the_gpu_has_passed_them_and_used_again():
    gpu, told = Gpu(), []
    timer = EventTimer(lambda seconds, mode: told.append((round(seconds, 6), mode)), gpu.event)
    for step in range(100):
        begun = timer.start()
        gpu.now += 0.010
        timer.stop(begun, "decode" if step % 2 else "draft")
        gpu.passed = gpu.now - 0.015  # the CPU runs ahead by more than a step
    assert len(told) == 97
    assert set(told) == {(0.01, "decode"), (0.01, "draft")}
    assert gpu.made <= 6
    gpu.passed = gpu.now
    timer.drain()
    assert [mode for _, mode in told[-2:]] == ["draft", "decode"]
    assert len(told) == 100


def test_nothing_is_told_before_the_gpu_is_done():
    gpu, told = Gpu(), []
    gpu.passed = -1.0
    timer = EventTimer(lambda *found: told.append(found), gpu.event)
    timer.stop(timer.start(), "extend")
    timer.drain()
    assert told == []


@pytest.fixture
def told(monkeypatch):
    """What reaches the tally of a row on the first rank, with /metrics on."""
    found = []
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "set")
    monkeypatch.setattr(rank_module, "this_rank", lambda: Rank(0, 0))
    flushed = []

    class Tally:
        def __init__(self, histogram, labels):
            assert labels == step_seconds.MODES

        def add(self, seconds, mode):
            found.append((mode, seconds))

        def flush(self):
            flushed.append(len(found))

    monkeypatch.setattr(step_seconds, "Tally", Tally)
    monkeypatch.setattr("prometheus_client.Histogram", lambda *args, **kwargs: None)
    return SimpleNamespace(found=found, flushed=flushed)


def make():
    return StepSeconds(Context(Here("0.5.23", "cpu", "scheduler"), {}))


def batch(mode):
    return SimpleNamespace(forward_mode=SimpleNamespace(name=mode))


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


def test_the_cost_of_a_step_on_the_cpu(told):
    """Forward, draft and draft_extend of one step, through the row: below 20 us, without SGLang's own."""
    row = StepSeconds(Context(Here("0.5.23", "cpu", "scheduler"), {}))
    row._decide()
    row._timer = WallTimer(lambda seconds, mode: None)
    verify, nothing = batch("TARGET_VERIFY"), lambda *args, **kwargs: None

    def cost(steps=3000):
        begun = time.process_time()
        for _ in range(steps):
            row.draft(nothing, "worker")
            row.forward(nothing, "worker", None, verify, is_verify=True)
            row.draft_extend(nothing, "worker", 1, 2)
        return (time.process_time() - begun) / steps * 1e6

    assert min(cost() for _ in range(5)) < 20
