"""A run folder as data, vocab and capture leave it, for the toy target: random text with random states."""

import hashlib
import json
from pathlib import Path

import torch
from datasets import Dataset
from datasets.utils.logging import disable_progress_bar
from drafter_files.toy import HIDDEN, HOT, LAYERS, VOCAB
from safetensors.torch import save_file

from k25serve.drafters.training.capture.files import hash_of
from k25serve.drafters.training.capture.shards import File, Sidecar

AUX = (1, 3, 4)  # physical: the states that leave these layers


def write_run(folder: Path, target: Path, rows: int = 12, held_out: int = 3, seed: int = 0) -> Path:
    """Each row a prompt of 5 to 8 tokens and an answer of 6 to 20."""
    numbers = torch.Generator().manual_seed(seed)
    hot = torch.tensor(HOT)
    t2d = torch.zeros(VOCAB, dtype=torch.bool)
    t2d[hot] = True
    (folder / "vocab").mkdir(parents=True)
    save_file({"d2t": hot - torch.arange(len(hot)), "t2d": t2d}, folder / "vocab" / "vocab.safetensors")
    (folder / "vocab" / "report.json").write_text(json.dumps({"coverage": 0.9}))
    for split, count in (("train", rows), ("held_out", held_out)):
        _write_split(folder, split, count, numbers, target)
    (folder / "data" / "report.json").write_text(json.dumps({"rows": rows}))
    return folder


def _write_split(folder: Path, split: str, count: int, numbers: torch.Generator, target: Path) -> None:
    columns: dict[str, list[object]] = {name: [] for name in ("input_ids", "loss_mask", "seq_len", "label", "id")}
    hidden = folder / "hidden" / split
    hidden.mkdir(parents=True)
    files = []
    for row in range(count):
        prompt, answer = (int(torch.randint(low, high, (1,), generator=numbers)) for low, high in ((5, 9), (6, 21)))
        length = prompt + answer
        ids = torch.randint(0, VOCAB, (length,), generator=numbers)
        mask = torch.arange(length) >= prompt
        states = torch.randn(length, 4, HIDDEN, generator=numbers).bfloat16()
        path = hidden / f"hs_{row}.safetensors"
        save_file({"token_ids": ids, "loss_mask": mask, "hidden_states": states}, path)
        values = (ids.tolist(), mask.long().tolist(), length, "code" if row % 2 else "chat", f"{row:016x}")
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
        kept = hash_of(path)
        assert kept is not None
        files.append(File(row=row, id=f"{row:016x}", tokens=length, inputs="", sha256=kept.sha256, bytes=kept.size))
    disable_progress_bar()
    Dataset.from_dict(columns).save_to_disk(str(folder / "data" / split))
    Sidecar(
        split=split,
        index=0,
        start=0,
        stop=count,
        layers=AUX,
        last_layer=LAYERS - 1,
        hidden_size=HIDDEN,
        target_config_sha256=hashlib.sha256((target / "config.json").read_bytes()).hexdigest(),
        sglang="0.5.23",
        engine={},
        capture={},
        files=tuple(files),
    ).write(hidden / "shard-0.json")
