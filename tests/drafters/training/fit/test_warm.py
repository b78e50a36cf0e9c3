"""Warm start from a drafter folder: tensors by name, the head's rows by the target's ids."""

from pathlib import Path

import pytest
import torch
from drafter_files.files import flags, int64, noise
from drafter_files.fit_settings import toy_options
from drafter_files.run_folder import write_run
from drafter_files.toy import HIDDEN, HOT, VOCAB, draft_arrays, write_drafter
from safetensors.torch import load_file

from k25serve.drafters.checkpoint.errors import DrafterError
from k25serve.drafters.training.fit.run import fit
from k25serve.drafters.training.progress import Silent

AUX = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5], "use_aux_hidden_state": True}}

OTHER_AUX = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6]}}


def begun(run: Path, target: Path, drafter: Path) -> dict[str, torch.Tensor]:
    """The weights after a training whose rate is too low to move bf16."""
    options = toy_options(
        init={"kind": "warm", "drafter": str(drafter)},
        optimizer={"learning_rate": 1e-9, "weight_decay": 0.0},
        max_steps=1,
    )
    final = fit(options, run, target, run / "fit", Silent()).final
    tensors: dict[str, torch.Tensor] = load_file(final / "model.safetensors")
    return tensors


@pytest.mark.parametrize(("layer", "other"), [("midlayer.", ""), ("layers.0.", ""), ("model.layers.0.", "model.")])
def test_weights_are_the_drafters(run: Path, target: Path, tmp_path: Path, layer: str, other: str) -> None:
    drafter = write_drafter(tmp_path / "drafter", AUX, base=draft_arrays(layer, other))
    found, stored = begun(run, target, drafter), load_file(drafter / "model.safetensors")
    assert torch.equal(found["fc.weight"], stored[f"{other}fc.weight"])
    assert torch.equal(found["layers.0.mlp.down_proj.weight"], stored[f"{layer}mlp.down_proj.weight"])
    assert torch.equal(found["lm_head.weight"], stored["lm_head.weight"])


def test_another_draft_vocabulary_is_mapped_by_target_id(run: Path, target: Path, tmp_path: Path) -> None:
    own = (1, 3, 7, 8, *range(30, 40))
    arrays = {
        "lm_head.weight": noise("other", len(own), HIDDEN),
        "d2t": int64(*(token - place for place, token in enumerate(own))),
        "t2d": flags(set(own), VOCAB),
    }
    drafter = write_drafter(tmp_path / "drafter", {**AUX, "draft_vocab_size": len(own)}, arrays)
    found, stored = begun(run, target, drafter)["lm_head.weight"], load_file(drafter / "model.safetensors")
    head = load_file(target / "model.safetensors")["language_model.lm_head.weight"]
    for place, token in enumerate(HOT):
        expected = stored["lm_head.weight"][own.index(token)] if token in own else head[token]
        assert torch.equal(found[place], expected), token


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6]}},
            r"leaves layers \[1, 3, 5\], captured .*\[1, 3, 4\]",
        ),
        ({**AUX, "rope_theta": 5e5}, "rope_theta 500000.0.*draft_layer has 1000000.0"),
        ({**AUX, "architectures": ["Other"]}, r"architectures is \['Other'\].*drafter adapt"),
    ],
)
def test_another_drafter_is_refused(
    run: Path, target: Path, tmp_path: Path, config: dict[str, object], message: str
) -> None:
    with pytest.raises(DrafterError, match=message):
        begun(run, target, write_drafter(tmp_path / "drafter", config))


def test_another_size_is_refused(target: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", target)
    wide = {name: noise(name, *shape) for name, shape in (("midlayer.mlp.up_proj.weight", (32, HIDDEN)),)}
    with pytest.raises(DrafterError, match=r"up_proj.weight' is \[32, 16\], draft_layer makes it \[24, 16\]"):
        begun(run, target, write_drafter(tmp_path / "drafter", AUX, wide))
