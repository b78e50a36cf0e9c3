import threading

import pytest
import torch
from safetensors.torch import load_file

from k25serve.patches import fault
from k25serve.patches.hooks import capture_files
from k25serve.patches.hooks.capture_files import BATCHES_WAITING, REFUSALS_KEPT, Batch, Part, StateWriter, to_host

HIDDEN, LAYERS = 4, 2


def batch(*rids, tokens=3, arrived=lambda: None):
    total = tokens * len(rids)
    return Batch(
        [Part(rid, i * tokens, (i + 1) * tokens) for i, rid in enumerate(rids)],
        torch.arange(total),
        torch.arange(total * LAYERS * HIDDEN).view(total, -1).bfloat16(),
        -torch.arange(total * HIDDEN).view(total, -1).bfloat16(),
        arrived,
    )


def test_tokens_by_layers_by_hidden(tmp_path):
    writer, given = StateWriter(tmp_path, {"a": "b"}), batch("x", "y")
    writer.put(given)
    writer.wait()
    tensors = load_file(tmp_path / "y.safetensors")
    assert tensors["token_ids"].tolist() == [3, 4, 5]
    assert tensors["hidden_states"].shape == (3, LAYERS + 1, HIDDEN)
    assert torch.equal(tensors["hidden_states"][1, 1], given.aux[4, HIDDEN:])
    assert torch.equal(tensors["hidden_states"][1, 2], given.last[4])
    assert writer.report() == {"written": 2, "refused": {}}


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    def half(tensors, path, metadata):
        path.write_bytes(b"half")
        assert not (tmp_path / "x.safetensors").exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(capture_files, "save_file", half)
    writer = StateWriter(tmp_path, {})
    writer.put(batch("x", "y"))
    writer.wait()
    assert list(tmp_path.iterdir()) == []
    assert writer.report()["refused"] == dict.fromkeys(("x", "y"), "OSError: [Errno 28] No space left on device")


def test_after_a_refusal_it_goes_on(tmp_path):
    writer = StateWriter(tmp_path / "later", {})
    writer.put(batch("x"))
    writer.wait()
    (tmp_path / "later").mkdir()
    writer.put(batch("y"))
    writer.wait()
    assert [path.name for path in (tmp_path / "later").iterdir()] == ["y.safetensors"]
    assert set(writer.report()["refused"]) == {"x"}


def test_the_scheduler_waits_only_for_a_full_queue(tmp_path):
    writer, go = StateWriter(tmp_path, {}), threading.Event()
    for number in range(BATCHES_WAITING + 1):  # one of them is being written
        writer.put(batch(f"r{number}", arrived=go.wait))
    late = threading.Thread(target=writer.put, args=(batch("late"),))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    go.set()
    late.join(10)
    writer.wait()
    assert writer.written == BATCHES_WAITING + 2


def test_refusals_do_not_grow_without_end(tmp_path):
    writer = StateWriter(tmp_path, {})
    writer.refuse([f"r{number}" for number in range(REFUSALS_KEPT + 5)], "why")
    assert len(writer.report()["refused"]) == REFUSALS_KEPT


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_anything_else_stops_the_engine_with_the_rows_name(tmp_path, monkeypatch):
    told = []

    def stop(line, error):
        told.append(line)
        return SystemExit(line)

    monkeypatch.setattr(fault, "stop", stop)

    def breaks():
        raise RuntimeError("CUDA error")

    writer = StateWriter(tmp_path, {})
    writer.put(batch("x", arrived=breaks))
    writer._thread.join(10)
    assert told == ["patch capture_states: its writer failed: RuntimeError: CUDA error"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_copies_are_of_the_dtype_asked_for_and_their_own(dtype):
    given = torch.randn(3, 2).to(dtype)
    (copy,), arrived = to_host([given], [torch.bfloat16])
    arrived()
    assert torch.equal(copy, given.bfloat16())
    given.zero_()
    assert copy.abs().sum() > 0
