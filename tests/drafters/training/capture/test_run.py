"""From the data through the engine to sealed shards, and what goes wrong on the way."""

import errno
import json
import os
import shutil
from collections import namedtuple

import pytest
import torch
from captured import data
from captured.engine import armed
from safetensors.torch import load_file

from k25serve.drafters.checkpoint.errors import CheckpointError, TrainingError
from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.capture import run
from k25serve.drafters.training.capture.files import hash_of
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.run import capture, capture_shard
from k25serve.drafters.training.capture.shards import drop_shard, plan_shards
from k25serve.drafters.training.progress import Silent
from k25serve.patches.hooks.capture_states import MARKER

OPTIONS = CaptureOptions(rows_per_shard=3, timeout_s=20)


@pytest.fixture
def go(engine, run_data, tmp_path):
    """Capture into `tmp_path`/hidden; keywords are options, or `shards`, `staging`, `target`, `progress`."""

    def capture_with(shards=None, staging=None, target=TARGET, progress=None, **changes):
        options = OPTIONS.model_copy(update=changes)
        return capture(
            options, run_data, tmp_path / "hidden", engine.url, target, staging, progress or Silent(), shards
        )

    return capture_with


def expected(model, prompt, layers=(1, 2, 3, 4)):
    states = model.reference.states(torch.tensor(prompt))
    return torch.stack([states[layer] for layer in layers], dim=1)


def files(tmp_path, split="train"):
    return tmp_path / "hidden" / split


def assert_all_right(engine, tmp_path, layers=(1, 2, 3, 4)):
    for split, prompts in (("train", data.prompts()), ("held_out", data.prompts((6, 8), seed=9))):
        for index, prompt in enumerate(prompts):
            tensors = load_file(files(tmp_path, split) / f"hs_{index}.safetensors")
            assert tensors["token_ids"].tolist() == prompt
            assert tensors["loss_mask"].tolist() == [place >= len(prompt) // 2 for place in range(len(prompt))]
            states = tensors["hidden_states"]
            assert states.dtype == torch.bfloat16
            torch.testing.assert_close(states.float(), expected(engine.model, prompt, layers), rtol=8e-3, atol=1e-4)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_row_has_its_file_and_every_shard_its_seal(engine, go, tmp_path, concurrency):
    engine.batch_s = 0.05 if concurrency > 1 else 0.0
    report = go(concurrency=concurrency)
    assert_all_right(engine, tmp_path)
    assert (max(engine.model.batches) > 1) == (concurrency > 1)
    assert (report.shards, report.captured, report.kept, report.mended) == (4, 10, 0, 0)
    assert report.tokens == sum(data.LENGTHS) + 14
    names = sorted(path.name for path in files(tmp_path).iterdir())
    assert names == sorted([*(f"hs_{i}.safetensors" for i in range(8)), *(f"shard-{k}.json" for k in range(3))])
    assert [path.name for path in (tmp_path / "states").iterdir()] == [MARKER], "what was staged is gone"
    seal = json.loads((files(tmp_path) / "shard-2.json").read_text())
    assert (seal["layers"], seal["last_layer"], seal["sglang"], seal["engine"]["dtype"]) == (
        [1, 2, 3],
        4,
        "0.5.23",
        "float32",
    )
    assert [(file["row"], file["tokens"]) for file in seal["files"]] == [(6, 64), (7, 12)]
    for file in seal["files"]:
        kept = hash_of(files(tmp_path) / f"hs_{file['row']}.safetensors")
        assert (file["sha256"], file["bytes"]) == (kept.sha256, kept.size)


def test_ids_are_unique_and_none_begins_another(engine, go):
    go()
    go(rows_per_shard=8)
    assert len(set(engine.asked)) == len(engine.asked)
    assert not any(a != b and b.startswith(a) for a in engine.asked for b in engine.asked)


class Stopped(Exception):
    """A kill at that moment."""


class StopAfter(Silent):
    def __init__(self, rows):
        self.left = rows

    def advance(self, count=1):
        self.left -= count
        if self.left < 0:
            raise Stopped


def test_a_stopped_capture_goes_on_and_does_nothing_twice(engine, go, tmp_path):
    with pytest.raises((Stopped, ExceptionGroup)):
        go(progress=StopAfter(4))
    assert len(engine.asked) == 5
    (files(tmp_path) / ".hs_7.safetensors.part").write_bytes(b"half")
    report = go()
    assert (report.captured, report.kept, report.mended) == (5, 5, 0)
    assert len(engine.asked) == 10
    assert_all_right(engine, tmp_path)
    assert (again := go()).captured == 0
    assert (again.kept, len(engine.asked), again.tokens_per_second) == (10, 10, 0.0)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def turn_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, turn_a_bit, lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_a_damaged_file_of_a_sealed_shard_is_captured_again(engine, go, tmp_path, damage):
    go()
    damage(files(tmp_path) / "hs_4.safetensors")
    report = go()
    assert (report.captured, report.kept, report.mended) == (1, 9, 1)
    assert engine.asked[-1].startswith("train-4-")
    assert_all_right(engine, tmp_path)
    assert go().kept == 10


def test_sizes_alone_see_a_cut_and_no_turned_bit(engine, go, tmp_path):
    go()
    turn_a_bit(files(tmp_path) / "hs_4.safetensors")
    cut(files(tmp_path) / "hs_5.safetensors")
    assert go(verify="size").mended == 1
    assert go(verify="hash").mended == 1


@pytest.mark.parametrize("damage", [cut, lambda path: path.write_bytes(b"no header")])
def test_a_damaged_file_of_an_open_shard_too(engine, go, tmp_path, damage):
    go()
    (files(tmp_path) / "shard-0.json").write_text("{")
    damage(files(tmp_path) / "hs_1.safetensors")
    report = go()
    assert (report.captured, report.kept, report.mended) == (1, 9, 1)
    assert_all_right(engine, tmp_path)


@pytest.mark.parametrize("sealed", [True, False])
def test_files_of_other_layers_are_captured_again(engine, go, tmp_path, monkeypatch, sealed):
    go()
    if not sealed:
        for path in files(tmp_path).glob("shard-*.json"):
            path.unlink()
    engine.model.norm._forward_hooks.clear()
    engine.row = armed(tmp_path / "states", engine.model, "0,2,3")
    report = go()
    assert (report.captured, report.mended) == (10, 10)
    assert_all_right(engine, tmp_path, (0, 2, 3, 4))


def test_a_sample_whose_data_changed_is_captured_again(engine, go, run_data, tmp_path):
    go()
    changed = data.prompts()
    changed[2] = changed[2][::-1]
    shutil.rmtree(run_data / "train")
    data.write(tmp_path / "new", changed)
    shutil.move(tmp_path / "new" / "train", run_data / "train")
    report = go()
    assert (report.captured, report.kept) == (1, 9)
    assert load_file(files(tmp_path) / "hs_2.safetensors")["token_ids"].tolist() == changed[2]


def test_another_target_of_the_same_shape_is_not_taken_over(engine, go, tmp_path):
    go()
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text((TARGET / "config.json").read_text() + "\n")
    (other / "model.safetensors").symlink_to(TARGET / "model.safetensors")
    assert go(target=other).captured == 10


def test_one_shard_at_a_time_and_dropped_once_used(engine, run_data, tmp_path):
    out, shards = tmp_path / "hidden", plan_shards(run_data, OPTIONS)
    for shard in shards:
        report = capture_shard(shard, OPTIONS, run_data, out, engine.url, TARGET, None, Silent())
        assert report.captured == len(shard.rows)
        drop_shard(out, shard)
        assert list(shard.folder(out).iterdir()) == []


def test_left_overs_of_a_killed_run_are_removed(engine, go, tmp_path):
    stale = tmp_path / "states" / "train-0-00000000.safetensors"
    stale.write_bytes(b"old")
    other = tmp_path / "states" / "train-99-00000000.safetensors"
    other.write_bytes(b"another row's")
    go()
    assert not stale.exists()
    assert other.exists()


def fault(go, **keywords):
    with pytest.raises(TrainingError) as caught:
        go(**keywords)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_an_engine_without_the_row(engine, go):
    engine.captures = False
    assert "the engine does not capture; start it with --set patches.capture_states.directory=PATH" in fault(go)


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        ("disable_radix_cache", False, "--disable-radix-cache"),
        ("chunked_prefill_size", 512, "--chunked-prefill-size -1"),
    ],
)
def test_an_engine_that_would_not_compute_prompts_whole(engine, go, name, value, flag):
    engine.arguments[name] = value
    assert f"{name} is {value}, so prompts would not be computed whole; start the engine with {flag}" in fault(go)


def test_other_layers_than_asked_for(go):
    told = fault(go, layers=(1, 2))
    assert (
        "--layers 1,2: the engine captures 1,2,3; start it with --set 'patches.capture_states.layers=\"1,2\"'" in told
    )


def test_another_target(go, tmp_path):
    config = json.loads((TARGET / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 7
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "hidden_size and layers are (256, 7), those of the served model (256, 5)" in fault(go, target=tmp_path)
    with pytest.raises(CheckpointError, match="no such folder"):
        go(target=tmp_path / "none")


def test_staging_that_is_not_the_engines(go, tmp_path):
    told = fault(go, staging=tmp_path / "hidden")
    assert f"not the folder that the engine writes to, which is {tmp_path}/states" in told
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / MARKER).write_text(json.dumps({"directory": "/other", "layers": [1, 2, 3]}))
    assert "another engine writes there" in fault(go, staging=tmp_path / "elsewhere")


def test_staging_under_another_path(engine, go, tmp_path):
    (tmp_path / "mounted").symlink_to(tmp_path / "states")
    assert go(staging=tmp_path / "mounted").captured == 10


def test_the_engine_cannot_be_reached(engine, go):
    engine.url = "http://127.0.0.1:9"
    assert "see that the engine runs, then start again: it goes on" in fault(go)
    engine.url = "127.0.0.1:9"
    assert "the scheme is missing; pass http://127.0.0.1:9" in fault(go)


def test_the_engine_refuses_a_prompt(engine, go):
    engine.fail = 400
    assert "request train-0-" in fault(go)
    engine.fail = None
    assert go().captured == 10


def test_a_sample_that_is_too_long(engine, go):
    engine.longest = 63
    assert "data/train row 6: 64 tokens, the engine takes 63; raise its context_length" in fault(go)


def test_why_the_engine_could_not_write_is_told(engine, go, tmp_path):
    (tmp_path / "states" / MARKER).rename(tmp_path / MARKER)
    shutil.rmtree(tmp_path / "states")
    (tmp_path / "states").symlink_to(tmp_path / "gone")
    seen = tmp_path / "seen"
    seen.mkdir()
    (tmp_path / MARKER).rename(seen / MARKER)
    assert "the engine can't write train-0-" in fault(go, staging=seen)


def test_states_that_are_no_numbers(engine, go, monkeypatch):
    monkeypatch.setattr(engine.model.reference, "states", lambda ids: torch.full((5, len(ids), 256), torch.nan))
    assert "it has states that are no numbers; see the engine's log" in fault(go)


def test_the_budget_is_told_beforehand(engine, go):
    told = fault(go, disk_budget_bytes=100_000)
    assert told.startswith("capture takes 387 kB for 185 tokens of 2,057 B, the budget is 100 kB; raise --disk-budget")
    assert engine.asked == []
    assert go(disk_budget_bytes=400_000).captured == 10


def test_a_disk_that_is_too_full(engine, go, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 20))
    assert f"more than is there, and {tmp_path}/hidden has 1.05 MB free; give --out on a larger disk" in fault(go)
    assert engine.asked == []


def test_a_disk_that_fills_up_meanwhile(engine, go, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "hs_0.safetensors can't be written (No space left on device); mend it, then start again" in fault(go)
    assert [path.name for path in files(tmp_path).iterdir()] == []
    assert go().captured == 10


def test_two_at_once(engine, go, tmp_path):
    with run.alone(tmp_path / "hidden"):
        assert "another capture writes there; wait for it, or stop it" in fault(go)
    assert go().captured == 10


def test_without_data(engine, tmp_path):
    with pytest.raises(TrainingError, match="no data set; run `k25serve drafter train data` first"):
        capture(OPTIONS, tmp_path, tmp_path / "hidden", engine.url, TARGET, None, Silent())
