"""Hidden states out of the real engine, by the command: equal to a plain forward of the same weights in fp32."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from captured import data
from e2e.stack import COMMAND, boot
from safetensors.torch import load_file

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.tiny.chat import Chat, join
from k25serve.drafters.tiny.dataset import Encoder
from k25serve.drafters.tiny.held_out import held_out_prompts
from k25serve.drafters.tiny.load import load_tokenizer
from k25serve.drafters.training.capture.files import keep, name_of, read_states
from k25serve.drafters.training.capture.reference import Reference
from k25serve.drafters.training.capture.rows import Split
from k25serve.drafters.training.capture.run import config_hash
from k25serve.drafters.training.capture.shards import Sidecar
from k25serve.patches.hooks.capture_states import MARKER

pytestmark = [pytest.mark.engine, pytest.mark.full]
LAYERS = (1, 2, 3, 4)
HELD_OUT = 4
LONGEST = 1500


@dataclass(frozen=True)
class Run:
    """An engine that captures, and a folder for what it gives."""

    url: str
    data: Path
    folder: Path

    def command(self, out: str, *more: str) -> "subprocess.CompletedProcess[str]":
        """`k25serve drafter train capture` into `folder`/OUT."""
        paths = ("--data", str(self.data), "--out", str(self.folder / out), "--target", str(TARGET))
        arguments = (COMMAND, "drafter", "train", "capture", *paths, "--url", self.url, "--rows-per-shard", "8", *more)
        return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=400)


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Code, prose, tool calls with their results, several turns; and plain text up to `LONGEST` tokens."""
    torch.set_num_threads(1)  # threads of a model this small wait for each other, more so beside an engine
    encoder = Encoder(load_tokenizer())
    chats = held_out_prompts()
    plain = [chat for chat in chats if not chat.tools]
    turns: list[Chat] = [join(first, second) for first, second in zip(plain[:4], plain[4:8], strict=True)]
    ids = [encoder.tokenizer.encode(encoder.render(chat), add_special_tokens=False) for chat in (*turns, *chats)]
    long = [token for one in ids for token in one]
    samples = [*ids, long[:LONGEST], long[5:6], long[7:400]]
    assert any(chat.kind == "tool" and len(chat.messages) > 2 for chat in chats)
    return data.write(tmp_path_factory.mktemp("conversations"), samples[HELD_OUT:], samples[:HELD_OUT])


def engine_of(folder: Path, *more: str) -> "list[str]":
    """Arguments of `k25serve serve` for an engine that captures in fp32."""
    sets = (
        "engine.dtype=float32",
        f"patches.capture_states.directory={folder}/states",
        'patches.capture_states.layers="1,2,3"',
        'engine.extra_args=[--sleep-on-idle,--disable-radix-cache,--chunked-prefill-size,"-1"]',
        *more,
    )
    return ["serve", "-p", "cpu-tiny-nospec", *(part for one in sets for part in ("--set", one))]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, conversations: Path) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("capture")
    with boot(folder, *engine_of(folder)) as served:
        yield Run(served.engine_url, conversations, folder)


def done(result: "subprocess.CompletedProcess[str]", code: int = 0) -> str:
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout


def assert_equal_to_a_plain_forward(run: Run, out: str) -> None:
    reference = Reference(TARGET)
    for split in ("train", "held_out"):
        rows = Split(run.data, split)
        for index in range(len(rows)):
            row = rows[index]
            tensors = load_file(run.folder / out / split / name_of(index))
            assert tensors["token_ids"].tolist() == row.input_ids
            assert tensors["loss_mask"].int().tolist() == row.loss_mask
            states = reference.states(torch.tensor(row.input_ids))
            expected = torch.stack([states[layer] for layer in LAYERS], dim=1)
            # The engine's fp32 is off by 1e-5; a bf16 copy by half of its last bit, 2**-9.
            torch.testing.assert_close(tensors["hidden_states"].float(), expected, rtol=2**-8, atol=1e-3)


def test_one_at_a_time_equals_a_plain_forward_and_is_the_same_each_time(run: Run) -> None:
    assert "0 were there" in done(run.command("alone"))
    assert_equal_to_a_plain_forward(run, "alone")
    done(run.command("again"))
    for path in (run.folder / "alone").rglob("*.safetensors"):
        assert path.read_bytes() == (run.folder / "again" / path.relative_to(run.folder / "alone")).read_bytes()
    assert [path.name for path in (run.folder / "states").iterdir()] == [MARKER]


def test_in_batches_each_file_is_its_own_prompts(run: Run) -> None:
    done(run.command("batches", "--concurrency", "8"))
    assert_equal_to_a_plain_forward(run, "batches")
    log = next((run.folder / "k25serve").glob("*.log")).read_text()
    assert any(f"#new-seq: {count}," in log for count in range(2, 9)), "no batch of several prompts was formed"


def test_a_cut_file_is_captured_again(run: Run) -> None:
    done(run.command("alone"))
    path = run.folder / "alone" / "train" / name_of(9)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    told = done(run.command("alone"))
    assert "1 rows captured" in told
    assert "1 of them wrong and captured again" in told
    assert path.read_bytes() == whole


def test_the_check_passes_and_finds_layers_that_are_off_by_one(run: Run) -> None:
    done(run.command("alone"))
    told = done(run.command("alone", "--check", "8"))
    assert "check: passed" in told
    assert "the same top token at" in told

    shutil.copytree(run.folder / "alone", run.folder / "shifted")
    target = config_hash(TARGET)
    sealed = Sidecar.read(run.folder / "alone" / "train" / "shard-0.json")
    assert sealed is not None
    for split in ("train", "held_out"):
        rows = Split(run.data, split)
        for index in range(len(rows)):
            path = run.folder / "shifted" / split / name_of(index)
            tensors = read_states(path, rows[index], sealed.states, target)
            assert not isinstance(tensors, str)
            late = tensors["hidden_states"][:, [1, 2, 3, 3]].contiguous()  # what leaves the layer after
            keep({**tensors, "hidden_states": late}, rows[index], sealed.states, target, path.parent)
    told = done(run.command("shifted", "--check", "8"), code=1)
    for layer in (1, 2, 3):
        assert f"what was captured as layer {layer} is what leaves layer {layer + 1}" in told
    assert "check: failed" in told


def test_two_ranks_sum_before_states_are_taken(tmp_path: Path, conversations: Path) -> None:
    """What a rank holds between layers is its own part of a sum."""
    with boot(tmp_path, *engine_of(tmp_path, "engine.tp=2")) as served:
        run = Run(served.engine_url, conversations, tmp_path)
        done(run.command("two", "--concurrency", "4"))
    assert_equal_to_a_plain_forward(run, "two")


def test_an_engine_that_could_not_capture_does_not_start(tmp_path: Path) -> None:
    arguments = engine_of(tmp_path, "engine.extra_args=[--sleep-on-idle,--disable-radix-cache]")
    result = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode != 0
    said = result.stdout + result.stderr
    assert "patch capture_states: chunked_prefill_size is " in said
    assert "start with --chunked-prefill-size -1" in said
