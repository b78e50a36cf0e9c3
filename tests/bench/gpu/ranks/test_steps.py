"""Steps run in order, one that fails leaves the others, and a later run goes on in the same folder."""

from pathlib import Path
from typing import Any

import pytest

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks import steps
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.gpu.ranks.steps import STEPS, Step, chosen, told
from k25serve.bench.gpu.start import Start


def setting(folder: Path, ranks: int = 2, device: str = "cpu") -> Setting:
    return Setting(ranks, "cpu-tiny", device, Start((), (), folder))


def test_all_steps_are_those_of_the_device() -> None:
    assert chosen("all", "cuda") == ["kernels", "links", "parity", "work", "plan", "kills"]
    assert chosen("all", "cpu") == ["links", "parity", "work", "plan", "kills"]
    assert chosen("kills,links", "cpu") == ["links", "kills"], "in their own order"


def test_the_plan_says_what_and_how_long(tmp_path: Path) -> None:
    head, *lines = told(setting(tmp_path, 8, "cuda"), chosen("all", "cuda"))
    assert head == "8 ranks on cuda over nccl, 8 heads each; about 32 minutes the first time"
    assert [line.partition(":")[0] for line in lines] == list(STEPS)
    assert told(setting(tmp_path, 2), ["links"])[0] == "2 ranks on cpu over gloo, 32 heads each"


def faked(monkeypatch: pytest.MonkeyPatch, **runs: Any) -> None:
    found = {name: Step(run, lambda data: f"found {data['x']}", 1, f"does {name}") for name, run in runs.items()}
    monkeypatch.setattr(steps, "STEPS", found)


def test_one_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> dict[str, Any]:
        raise ProofError("no ranks")

    faked(monkeypatch, a=lambda *_: {"x": 1}, b=fails, c=lambda _, before: {"x": before["a"]["x"] + 1})
    data = steps.run(setting(tmp_path), ["a", "b", "c"])
    assert data["failed"] == ["b: ProofError('no ranks')"]
    assert data["not_run"] == ["b"]
    assert [data["steps"][name]["x"] for name in ("a", "c")] == [1, 2]


def test_a_later_run_goes_on_where_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    faked(monkeypatch, a=lambda *_: {"x": 1}, b=interrupted, c=lambda *_: {"x": 3})
    first = steps.run(setting(tmp_path), ["a", "b", "c"])
    assert (first["failed"], list(first["steps"])) == (["b: interrupted"], ["a"])
    faked(monkeypatch, a=interrupted, b=lambda _, before: {"x": before["a"]["x"] + 1}, c=lambda *_: {"x": 3})
    second = steps.run(setting(tmp_path), ["b", "c"])
    assert (second["failed"], second["not_run"]) == ([], [])
    assert [one["x"] for one in second["steps"].values()] == [1, 2, 3]
    text = steps.markdown(second | {"tp": 2})
    assert "2 ranks on cpu, 32 of 64 heads each." in text
    assert "## b: does b" in text
    assert "found 2" in text


def test_the_plan_needs_what_it_is_made_of(tmp_path: Path) -> None:
    assert steps.run(setting(tmp_path), ["plan"])["failed"] == [
        "plan: ProofError('step plan needs links and work; run them first, in the same --out')"
    ]
