"""Progress from the files that an engine's processes read, and what a load will take, told before it."""

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from k25serve.server.config import Profile, load_profile
from k25serve.server.engine import load_plan
from k25serve.server.engine.load_plan import plan_load
from k25serve.server.engine.load_record import last_seconds, record_load
from k25serve.server.engine.weights import Reading, WeightsMeter
from k25serve.server.errors import ConfigError, PreflightError

GB = 10**9


def shards(folder: Path, *sizes: int) -> list[Path]:
    """Files of that many bytes, which take no room."""
    folder.mkdir()
    made = [folder / f"model {n:05}.safetensors" for n in range(len(sizes))]
    for path, size in zip(made, sizes, strict=True):
        with path.open("wb") as file:
            file.truncate(size)
    return made


@contextmanager
def mapped(*paths: Path) -> Iterator[None]:
    """As SGLang's loader has them: mapped, the descriptor closed."""
    with ExitStack() as stack:
        for path in paths:
            with path.open("rb") as file:
                stack.enter_context(mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ))
        yield


def test_this_process_reads_target_then_drafter(tmp_path: Path) -> None:
    target, drafter = shards(tmp_path / "t", 4 * GB, 4 * GB), shards(tmp_path / "d", 2 * GB)
    (tmp_path / "link").symlink_to(tmp_path / "d")
    meter = WeightsMeter([str(tmp_path / "t"), str(tmp_path / "link")])
    me = [os.getpid(), 999_999_999]
    assert meter.sample(me, 0) is None
    with mapped(target[0]):
        assert meter.sample(me, 10) == Reading(2 * GB, 10 * GB, None)
    with mapped(*target):
        # The second file opened before the first was closed; both are in flight.
        assert meter.sample(me, 20) == Reading(4 * GB, 10 * GB, 30.0)
    assert meter.sample(me, 25) is None
    with drafter[0].open("rb"):
        assert meter.sample(me, 30) == Reading(9 * GB, 10 * GB, 20 / 7)


def fake_process(proc: Path, pid: int, *files: Path) -> None:
    (proc / str(pid) / "fd").mkdir(parents=True, exist_ok=True)
    lines = (f"7f00-7f01 r--p 00000000 08:01 123   {file}\n" for file in files)
    (proc / str(pid) / "maps").write_text("".join(lines))


def test_the_rank_that_is_behind_counts_and_nothing_goes_back(tmp_path: Path) -> None:
    files = shards(tmp_path / "t", *[GB] * 4)
    proc = tmp_path / "proc"
    meter = WeightsMeter([str(tmp_path / "t")], proc)
    done = []
    for second, (first, other) in enumerate([(0, 0), (1, 0), (2, 1), (3, 2)]):
        fake_process(proc, 1, files[first])
        fake_process(proc, 2, files[other])
        fake_process(proc, 3)  # the tokenizer's process reads none
        reading = meter.sample([1, 2, 3], second)
        assert reading is not None
        done.append(reading.done / GB)
    assert done == [0.5, 0.5, 1.5, 2.5]
    fake_process(proc, 4, files[0])  # a late one does not turn it back
    assert meter.sample([4], 9) == Reading(int(2.5 * GB), 4 * GB, 1.5 * 9 / 2)


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (Reading(235 * GB, 547 * GB, 1080.0), "43%, 235.0 of 547.0 GB at 0.29 GB/s, 18 min left"),
        (Reading(546 * GB, 547 * GB, 3.0), "100%, 546.0 of 547.0 GB at 0.33 GB/s, 3 s left"),
        (Reading(4 * GB, 547 * GB, None), "1%, 4.0 of 547.0 GB"),
    ],
)
def test_words(reading: Reading, text: str) -> None:
    assert str(reading) == text


K25_SHARDS = (9 * GB,) * 60 + (7 * GB,)  # 547 GB


def k25(tmp_path: Path, *overrides: str) -> Profile:
    if not (tmp_path / "target").exists():
        shards(tmp_path / "target", *K25_SHARDS)
        shards(tmp_path / "drafter", 3 * GB)
    folders = {"K25_TARGET": str(tmp_path / "target"), "K25_DRAFTER": str(tmp_path / "drafter")}
    return load_profile("k25-int4-sm120x8", overrides, folders)


def test_a_model_larger_than_ram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_plan, "available_ram", lambda: 480 * 2**30)
    assert str(plan_load(k25(tmp_path))) == (
        "load: 547.0 GB and 3.0 GB of the drafter, read by 8 ranks with 8 threads each through the page cache. RAM "
        "(480 GiB) holds less than that: each byte is read once while the ranks stay within 425 GB of each other, and "
        "the next start reads all of it again"
    )
    monkeypatch.setattr(load_plan, "available_ram", lambda: 1000 * 2**30)
    assert "which holds all of it (1,000 GiB of RAM)" in str(plan_load(k25(tmp_path)))


def test_without_mmap_the_shards_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_plan, "available_ram", lambda: 480 * 2**30)
    no_mmap = "engine.extra_args=[--weight-loader-disable-mmap{}]"
    with pytest.raises(PreflightError, match=r"8 ranks would hold 83\.8 GiB of shards each, 480\.0 GiB"):
        plan_load(k25(tmp_path, no_mmap.format("")))
    two = ", --model-loader-extra-config, '{\"num_threads\": 2}'"
    assert "with 2 threads each into RAM: up to 268.2 GiB of 480 GiB" in str(
        plan_load(k25(tmp_path, no_mmap.format(two)))
    )
    one = ", '--model-loader-extra-config={\"enable_multithread_load\": false}'"
    assert plan_load(k25(tmp_path, no_mmap.format(one))).threads == 1


@pytest.mark.parametrize("value", ["{", "[]", '{"num_threads": "x"}', '{"num_threads": 0}', '{"num_threads": null}'])
def test_odd_loader_configs(tmp_path: Path, value: str) -> None:
    profile = load_profile("cpu-tiny")
    extra = ("--model-loader-extra-config", value)
    odd = profile.model_copy(update={"engine": profile.engine.model_copy(update={"extra_args": extra})})
    with pytest.raises(ConfigError, match="--model-loader-extra-config"):
        plan_load(odd)


def test_the_last_load_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "x-30000.log"
    assert last_seconds(log) is None
    record_load(load_profile("cpu-tiny"), log, 61.26)
    assert last_seconds(log) == 61.3
    (tmp_path / "x-30000.load.json").write_text("[]")
    assert last_seconds(log) is None
