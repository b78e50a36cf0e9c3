"""What is wrong with the inputs is told in one line that names the file and the remedy; nothing is trained on it."""

import shutil
from pathlib import Path

import pytest
import torch
from drafter_files.fit_settings import toy_options
from drafter_files.run_folder import write_run
from drafter_files.toy import HIDDEN, write_target
from safetensors.torch import load_file, save_file

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.shards import Sidecar
from k25serve.drafters.training.fit.run import fit
from k25serve.drafters.training.progress import Silent


def refuse(run: Path, target: Path, message: str, **changes: object) -> None:
    with pytest.raises(TrainingError, match=message):
        fit(toy_options(**changes), run, target, run / "fit", Silent())


def rewrite(path: Path, **tensors: torch.Tensor) -> None:
    save_file({**load_file(path), **tensors}, path)


def reseal(run: Path, **values: object) -> None:
    path = run / "hidden" / "train" / "shard-0.json"
    sidecar = Sidecar.read(path)
    assert sidecar is not None
    sidecar.model_copy(update=values).write(path)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (
            "token_ids",
            lambda t: t + 1,
            r"hs_2\.safetensors: token_ids are not .*delete it and run .* capture",
        ),
        ("loss_mask", torch.logical_not, r"hs_2\.safetensors: loss_mask is not this row's"),
        ("hidden_states", lambda t: t.fill_(float("nan")), r"hs_2\.safetensors: hidden_states hold a value that is no"),
        ("hidden_states", lambda t: t.clone()[:, :, 1:].contiguous(), rf"hidden_states are \[\d+, 4, {HIDDEN - 1}\]"),
    ],
)
def test_a_file_that_is_not_its_row(run: Path, target: Path, name: str, tensor, message: str) -> None:  # type: ignore[no-untyped-def]
    path = run / "hidden" / "train" / "hs_2.safetensors"
    rewrite(path, **{name: tensor(load_file(path)[name])})
    sidecar = Sidecar.read(run / "hidden" / "train" / "shard-0.json")
    assert sidecar is not None
    size = path.stat().st_size
    files = tuple(f.model_copy(update={"bytes": size}) if f.row == 2 else f for f in sidecar.files)
    reseal(run, files=files)  # as a capture would that made the same mistake
    refuse(run, target, message)


def test_a_file_that_changed_since_it_was_sealed(run: Path, target: Path) -> None:
    path = run / "hidden" / "train" / "hs_5.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    refuse(run, target, r"hs_5\.safetensors: is not what the capture sealed .*mends them", verify="hash")
    path.write_bytes(data[:-9])
    refuse(run, target, r"hs_5\.safetensors: is not what the capture sealed")
    path.unlink()
    refuse(run, target, r"hs_5\.safetensors: is not what the capture sealed")


def test_a_capture_that_has_not_ended(run: Path, target: Path) -> None:
    (run / "hidden" / "held_out" / "shard-0.json").unlink()
    refuse(run, target, r"hidden/held_out: 0 of 3 rows are sealed; run .* capture` to its end")


def test_states_of_another_target(run: Path, tmp_path: Path) -> None:
    refuse(run, write_target(tmp_path / "other", text={"rope_theta": 1.0}), "states of another target than .*--target")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layers": (3, 1, 4)}, r"layers \[3, 1, 4\], which must ascend"),
        ({"layers": (1, 2, 3)}, r"of layers \[1, 3, 4\], but .* of \[1, 2, 3\]"),
        ({"last_layer": 6}, "last layer 6, width 16; the target's are 7 and 16"),
        ({"start": 1}, "rows 0 to 1 are in no sealed shard"),
    ],
)
def test_sidecars_that_do_not_fit(run: Path, target: Path, values: dict[str, object], message: str) -> None:
    reseal(run, **values)
    refuse(run, target, message)


def test_a_vocabulary_that_does_not_fit(run: Path, target: Path) -> None:
    path = run / "vocab" / "vocab.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "d2t": tensors["d2t"] + 1}, path)
    refuse(run, target, "d2t and t2d mark different ids; run .* vocab` again")
    save_file({**tensors, "t2d": tensors["t2d"][1:].clone()}, path)
    refuse(run, target, r"t2d has \[39\] entries, the target 40 tokens")
    path.write_bytes(b"x" * 20)
    refuse(run, target, r"vocab\.safetensors: cannot be read")


def test_no_gpu(run: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refuse(run, target, "device cuda: torch finds no GPU; use device cpu", device="cuda")
    refuse(run, target, "attention flex: has no backward pass on a CPU", attention="flex")


def test_more_processes_than_rows(target: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", target, rows=1)
    shutil.rmtree(run / "hidden" / "held_out")
    refuse(run, target, r"hidden/held_out: 0 of 3 rows are sealed")
