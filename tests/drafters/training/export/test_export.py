"""A fitted drafter becomes a folder that SGLang serves, or nothing."""

import json
from pathlib import Path

import pytest
import torch
from drafter_files.fit_settings import toy_options
from drafter_files.run_folder import write_run
from drafter_files.toy import write_target
from safetensors.torch import load_file

from k25serve.drafters.check import check_drafter
from k25serve.drafters.check.report import Verdict
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.export.options import ExportOptions
from k25serve.drafters.training.export.run import export
from k25serve.drafters.training.fit.run import fit
from k25serve.drafters.training.progress import Silent


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("toy") / "target")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, target: Path) -> Path:
    folder = write_run(tmp_path_factory.mktemp("run") / "run", target)
    fit(toy_options(), folder, target, folder / "fit", Silent())
    return folder


def test_the_folder_is_sglangs_and_passes(run: Path, target: Path, tmp_path: Path) -> None:
    done = export(ExportOptions(), run, target, tmp_path / "drafter")
    assert check_drafter(done.folder, target).verdict is Verdict.PASS
    config = json.loads((done.folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["torch_dtype"] == "bfloat16"
    # Physical 1, 3, 4 are the states that enter layers 2, 4, 5.
    assert config["eagle_config"] == {"eagle_aux_hidden_state_layer_ids": [2, 4, 5], "use_aux_hidden_state": True}
    found, fitted = load_file(done.folder / "model.safetensors"), load_file(run / "fit" / "final" / "model.safetensors")
    assert {name.replace("layers.0.", "midlayer.") for name in fitted} == set(found)
    assert torch.equal(found["midlayer.self_attn.q_proj.weight"], fitted["layers.0.self_attn.q_proj.weight"])
    assert (found["d2t"].dtype, found["t2d"].dtype, found["fc.weight"].dtype) == (
        torch.int64,
        torch.bool,
        torch.bfloat16,
    )
    assert "embed_tokens.weight" not in found


def test_provenance_says_where_it_comes_from(run: Path, target: Path, tmp_path: Path) -> None:
    folder = export(ExportOptions(), run, target, tmp_path / "drafter").folder
    record = json.loads((folder / "provenance.json").read_text())
    training = record["training"]
    assert training["settings"]["max_steps"] == 12
    assert {"data/report.json", "vocab/vocab.safetensors", "hidden/train/shard-0.json"} <= set(
        training["inputs_sha256"]
    )
    assert training["result"]["step"] == 12
    assert training["result"]["sglang"] == ["0.5.23"]
    assert {"torch", "speculators"} <= set(training["result"]["versions"])
    assert set(record["sha256"]) == {"config.json", "model.safetensors", "curves.json"}
    lines = [json.loads(line) for line in (run / "fit" / "curves.jsonl").read_text().splitlines()]
    assert json.loads((folder / "curves.json").read_text()) == {"evaluations": lines}


def test_what_the_check_refuses_is_not_written(run: Path, target: Path, tmp_path: Path) -> None:
    final = run / "fit" / "final" / "config.json"
    written = final.read_text()
    final.write_text(written.replace('"max_position_embeddings": 512', '"max_position_embeddings": 100'))
    try:
        with pytest.raises(TrainingError, match=r"`drafter check` refuses it, rule context-length: .*100"):
            export(ExportOptions(), run, target, tmp_path / "drafter")
    finally:
        final.write_text(written)
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_export(target: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="fit/final: no trained drafter; run `k25serve drafter train fit`"):
        export(ExportOptions(), tmp_path, target, tmp_path / "drafter")
