"""The row around a small decoder: each file against a forward of its own prompt."""

import importlib
import json
from types import SimpleNamespace

import pytest
import torch
from captured import data, played
from safetensors import safe_open
from safetensors.torch import load_file

from k25serve.patches import fault
from k25serve.patches.hooks import capture_states
from k25serve.patches.hooks.capture_states import HEADER, MARKER, REPORT, read_layers, text_model
from k25serve.patches.hooks.rank import Rank

RIDS = ("train-0-0000000a", "train-10-0000000b", "held_out-1-0000000c")
ARGUMENTS = {"disable_radix_cache": True, "chunked_prefill_size": -1}


@pytest.fixture(scope="module")
def model():
    return played.PlayedModel()


@pytest.fixture(autouse=True)
def _unarmed(model):
    model.layers_to_capture = []
    model.norm._forward_hooks.clear()


def armed(monkeypatch, tmp_path, model, rank=Rank(0, 0), layers="1,2,3"):  # noqa: B008 - frozen
    monkeypatch.setattr(capture_states, "this_rank", lambda: rank)
    monkeypatch.setattr(capture_states, "_arguments", lambda: ARGUMENTS)
    row = played.row(tmp_path, layers)
    runner = SimpleNamespace(model=SimpleNamespace(language_model=SimpleNamespace(model=model)))
    assert row.load(lambda given: "loaded", runner) == "loaded"
    row.facts()
    return row


def expected(model, prompt, layers=(1, 2, 3)):
    states = model.reference.states(torch.tensor(prompt))
    return torch.stack([states[layer] for layer in (*layers, 4)], dim=1)


def assert_states(path, model, prompt, layers=(1, 2, 3)):
    tensors = load_file(path)
    assert set(tensors) == {"token_ids", "hidden_states"}
    assert tensors["token_ids"].tolist() == list(prompt)
    assert tensors["hidden_states"].dtype == torch.bfloat16
    torch.testing.assert_close(tensors["hidden_states"].float(), expected(model, prompt, layers), rtol=8e-3, atol=1e-4)


def test_each_request_of_a_batch_has_its_own_prompts_states(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    prompts = data.prompts((9, 33, 4))
    result = played.run(row, model, played.forward_batch(prompts, RIDS))
    assert isinstance(result, torch.Tensor), "SGLang's caller gets what it would get without the row"
    row._writer.wait()
    for rid, prompt in zip(RIDS, prompts, strict=True):
        assert_states(tmp_path / f"{rid}.safetensors", model, prompt)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([MARKER, *(f"{rid}.safetensors" for rid in RIDS)])
    assert model.layers_to_capture == []
    assert row._last is None


def test_only_requests_that_ask_are_written(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    others = ["0f3a" * 8, "HEALTH_CHECK_1", "../train-1-0000000a", "train-1-0000000a/x", "train-1"]
    prompts = data.prompts((3, 5, 2, 7, 4, 6))
    played.run(row, model, played.forward_batch(prompts, [*others, RIDS[0]]))
    row._writer.wait()
    assert_states(tmp_path / f"{RIDS[0]}.safetensors", model, prompts[-1])
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
    assert row._writer.report() == {"written": 1, "refused": {}}


@pytest.mark.parametrize(
    ("rids", "mode"), [(("chat",), "EXTEND"), (RIDS[:1], "DECODE"), (RIDS[:1], "TARGET_VERIFY"), (None, "EXTEND")]
)
def test_other_forwards_pass_untouched(monkeypatch, tmp_path, model, rids, mode):
    row = armed(monkeypatch, tmp_path, model)
    batch = played.forward_batch(data.prompts((4,)), rids or ("x",), mode)
    batch.rids = rids
    seen = []

    def original(given, *args, forward_batch):
        seen.append(list(given.layers_to_capture))
        return "result"

    assert row.forward(original, model, None, None, forward_batch=batch) == "result"
    assert seen == [[]]
    assert row._last is None


def test_another_model_of_the_process_is_left_alone(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    batch = played.forward_batch(data.prompts((4,)), RIDS[:1])
    assert row.forward(lambda given, *args: given, "drafter", None, None, batch) == "drafter"


def test_other_ranks_run_the_same_forward_and_write_nothing(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model, rank=Rank(1, 0))
    seen = []

    def original(given, *args):
        seen.append(list(given.layers_to_capture))
        return given.forward(*args)

    batch = played.forward_batch(data.prompts((4,)), RIDS[:1])
    row.forward(original, model, batch.input_ids, None, batch)
    assert seen == [[2, 3, 4]]
    assert list(tmp_path.iterdir()) == []


def test_named_layers_are_the_ones_that_states_leave(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model, layers="0,3")
    (prompt,) = data.prompts((7,))
    played.run(row, model, played.forward_batch([prompt], RIDS[:1]))
    row._writer.wait()
    assert_states(tmp_path / f"{RIDS[0]}.safetensors", model, prompt, (0, 3))
    with safe_open(tmp_path / f"{RIDS[0]}.safetensors", "pt") as file:
        assert {name: json.loads(text) for name, text in file.metadata().items()} == {
            HEADER: {"layers": [0, 3], "last_layer": 4}
        }


def test_the_same_states_are_the_same_bytes(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    (prompt,) = data.prompts((7,))
    for rid in RIDS:
        played.run(row, model, played.forward_batch([prompt], [rid]))
    row._writer.wait()
    assert len({path.read_bytes() for path in tmp_path.glob("*.safetensors")}) == 1


def test_a_prompt_that_was_partly_computed_before_is_refused(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    played.run(row, model, played.forward_batch(data.prompts((4, 3)), RIDS[:2], prefixes=[0, 2]))
    row._writer.wait()
    assert set(row._writer.report()["refused"]) == set(RIDS[:2])
    assert "2 tokens of train-10-0000000b were computed before" in row._writer.report()["refused"][RIDS[1]]
    assert list(tmp_path.glob("*.safetensors")) == []


def test_padded_tokens_are_refused(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    batch = played.forward_batch(data.prompts((4,)), RIDS[:1])

    def original(given, *args):
        hidden, aux = given.forward(*args)
        return hidden, torch.cat([aux, aux[:1]])

    row.forward(original, model, batch.input_ids, None, batch)
    assert "4 tokens, but [4, 5, 4] ids and states" in row._writer.report()["refused"][RIDS[0]]


def test_an_exception_of_sglang_leaves_nothing_behind(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)

    def original(*args):
        raise RuntimeError("SGLang's own")

    with pytest.raises(RuntimeError, match="SGLang's own"):
        row.forward(original, model, None, None, played.forward_batch(data.prompts((4,)), RIDS[:1]))
    assert model.layers_to_capture == []


def test_the_report_over_http_and_the_facts(monkeypatch, tmp_path, model):
    row = armed(monkeypatch, tmp_path, model)
    facts = {
        "directory": str(tmp_path),
        "layers": [1, 2, 3],
        "last_layer": 4,
        "hidden_size": 256,
        "dtype": "bfloat16",
        "sglang": "0.5.23",
    }
    assert row.facts() == facts
    assert json.loads((tmp_path / MARKER).read_text()) == facts
    played.run(row, model, played.forward_batch(data.prompts((4,)), RIDS[:1]))
    row._writer.wait()
    result = SimpleNamespace(internal_state={"dtype": "float32"})
    assert row.told(result, "scheduler", "request") is None
    assert result.internal_state == {"dtype": "float32", REPORT: {**facts, "written": 1, "refused": {}}}


@pytest.mark.parametrize("text", ["", "1,", "a", "1 2", "-1", "2,1", "1,1", "1.5"])
def test_layers_are_ascending_numbers(text):
    with pytest.raises(ValueError, match=f"layers is '{text}'; give "):
        read_layers(text)


def test_the_directory_is_absolute():
    with pytest.raises(ValueError, match="directory is 'states'; give an absolute path"):
        played.row("states")


def test_a_layer_that_is_not_there_stops_the_launch(monkeypatch, tmp_path, model):
    with pytest.raises(fault.PatchFault, match="layers is '1,4', the model's are 0 to 4 and the last one is always"):
        armed(monkeypatch, tmp_path, model, layers="1,4")


def test_an_engine_that_could_not_capture_is_stopped_before_the_load(monkeypatch, tmp_path):
    row = played.row(tmp_path)
    monkeypatch.setattr(capture_states, "_arguments", lambda: ARGUMENTS | {"speculative_algorithm": "EAGLE3"})
    with pytest.raises(fault.PatchFault, match=r"capture_states: speculative_algorithm is 'EAGLE3': .*; set spec"):
        row.load(lambda given: pytest.fail("loaded"), "runner")


def test_a_directory_that_cannot_be_made_stops_the_launch(monkeypatch, tmp_path, model):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        fault.PatchFault, match=r"directory .*/file/x can't be written \(Not a directory\); give another"
    ):
        armed(monkeypatch, tmp_path / "file" / "x", model)


def test_a_plain_model_and_one_without_layers(model):
    assert text_model(SimpleNamespace(model=model)) is model
    assert text_model(SimpleNamespace(language_model=SimpleNamespace(model=model))) is model
    for other in (SimpleNamespace(), SimpleNamespace(model=SimpleNamespace(layers=[]))):
        with pytest.raises(fault.PatchFault, match="SimpleNamespace has no layers that SGLang captures from"):
            text_model(other)


@pytest.mark.usefixtures("sglang_on_cpu")
def test_sglang_captures_what_enters_the_layers_that_are_named():
    """The packer that SGLang fills holds one state a named layer, in the layers' order."""
    packer = importlib.import_module("sglang.srt.layers.aux_hidden_states").AuxHiddenStatePacker(2)
    first, second = torch.randn(3, 4), torch.randn(3, 4)
    packer.append(first)
    packer.append(second)
    assert torch.equal(packer.finalize().unflatten(-1, (-1, 4)), torch.stack([first, second], dim=1))
