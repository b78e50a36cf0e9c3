"""Training on a GPU: flex attention and by document are one loss, bf16 is close, a kill costs nothing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from drafter_files.fit_settings import VALUES, toy_options
from drafter_files.run_folder import write_run
from drafter_files.stopper import Killed, Stopper
from safetensors.torch import load_file

from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.fit.run import Fitted, fit
from k25serve.drafters.training.progress import Silent

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run pytest -m gpu on one"),
]
LAYER = {**VALUES["draft_layer"], "head_dim": 16}  # flex attention takes no narrower heads
STEPS = 30


def gpu_options(**changes: Any) -> FitOptions:
    return toy_options(
        **{
            "draft_layer": LAYER,
            "device": "cuda",
            "tokens_per_batch": 256,
            "max_steps": STEPS,
            "evaluate_every": 5,
            "optimizer": {"learning_rate": 0.003},
            **changes,
        }
    )


@pytest.fixture
def long_run(tmp_path: Path, target: Path) -> Path:
    return write_run(tmp_path / "long", target, rows=120, held_out=20)


def losses(done: Fitted) -> list[float]:
    """Of training, every five steps, and of every draft step held out."""
    return [value for line in done.curves for value in (line["train_loss"], *line["held_out"]["loss"])]


def test_flex_documents_and_the_cpu_are_one_loss(long_run: Path, target: Path) -> None:
    found = {
        name: losses(fit(gpu_options(**changes), long_run, target, long_run / name, Silent()))
        for name, changes in {
            "flex": {"attention": "flex", "precision": "fp32"},
            "documents": {"attention": "documents", "precision": "fp32"},
            "cpu": {"attention": "documents", "device": "cpu"},
        }.items()
    }
    assert len(found["cpu"]) == STEPS // 5 * 4
    assert found["cpu"][-4] < found["cpu"][0]
    assert found["documents"] == pytest.approx(found["cpu"], rel=0.01)
    assert found["flex"] == pytest.approx(found["cpu"], rel=0.01)


@pytest.mark.parametrize("attention", ["flex", "documents"])
def test_bf16_is_close_to_fp32(long_run: Path, target: Path, attention: str) -> None:
    found = [
        losses(fit(gpu_options(attention=attention, precision=one), long_run, target, long_run / one, Silent()))
        for one in ("bf16", "fp32")
    ]
    assert found[0] == pytest.approx(found[1], rel=0.05)
    assert found[0] != found[1]


@pytest.mark.parametrize("attention", ["flex", "documents"])
def test_killed_and_resumed_ends_where_the_whole_does(long_run: Path, target: Path, attention: str) -> None:
    """Within what two whole runs differ by: a GPU's sums have no fixed order."""
    options = gpu_options(attention=attention, checkpoint_every_steps=4)
    whole, again = (fit(options, long_run, target, long_run / name, Silent()) for name in ("whole", "again"))
    for step in (6, 9):
        with pytest.raises(Killed):
            fit(options, long_run, target, long_run / "fit", Stopper(step))
    resumed = fit(options, long_run, target, long_run / "fit", Silent())
    noise = apart(whole, again)
    print(f"{attention}: two whole runs {noise:.2e} apart, the resumed one {apart(whole, resumed):.2e}")
    assert resumed.steps == whole.steps
    assert apart(whole, resumed) <= max(0.01, 2 * noise)


def apart(one: Fitted, other: Fitted) -> float:
    """Of all weights, relative, in L2."""
    a, b = (load_file(each.final / "model.safetensors") for each in (one, other))
    floats = [name for name, tensor in a.items() if tensor.is_floating_point()]
    difference = sum(float((a[name].double() - b[name].double()).square().sum()) for name in floats)
    return (difference / sum(float(a[name].double().square().sum()) for name in floats)) ** 0.5
