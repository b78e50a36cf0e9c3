"""Kimi-K2's drafter and Kimi-K2.5 at full width, 547 GB by their headers: checked and adapted in seconds, in 1 GB."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drafter_files.full_width import DRAFT_VOCAB, HOT, SPECIAL, write_k2_drafter, write_k25_target

from k25serve.drafters.checkpoint import Target

GIB = 2**30
# A subprocess, and its VmHWM: ru_maxrss of a child starts from its parent's peak, and pytest holds torch.
WORK = """
import json, sys, time
from pathlib import Path
source, target, out = (Path(word) for word in sys.argv[1:])
clock = time.perf_counter()
from k25serve.drafters.check import check_drafter
before = check_drafter(source, target)
checked = time.perf_counter()
from k25serve.drafters.adapters import AdaptOptions, adapt
adapted = adapt("kimi_k2", source, out, target, AdaptOptions(counts="rank"))
done = time.perf_counter()
after = check_drafter(out, target)
print(json.dumps({
    "before": before.as_json(), "after": after.as_json(), "changes": list(adapted.changes),
    "check_s": checked - clock, "adapt_s": done - checked, "check_again_s": time.perf_counter() - done,
    "peak_bytes": 1024 * next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")),
    "torch": "torch" in sys.modules, "numpy": "numpy" in sys.modules,
}))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("full")
    yield write_k2_drafter(folder / "k2"), write_k25_target(folder / "k25")
    # pytest keeps what its last runs wrote, and the adapted drafter has no holes.
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def done(folders: tuple[Path, Path]) -> dict[str, Any]:
    source, target = folders
    command = [sys.executable, "-P", "-c", WORK, str(source), str(target), str(source.parent / "out")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    value: dict[str, Any] = json.loads(answer.stdout)
    return value


def test_target_is_as_large_as_the_real_one(folders: tuple[Path, Path]) -> None:
    _, target = folders
    size = sum(path.stat().st_size for path in target.glob("*.safetensors"))
    assert 540e9 < size < 600e9
    opened = Target(target)
    assert opened.embedding.shape == opened.head.shape == (163840, 7168)
    assert len(opened.checkpoint.names) > 200_000
    assert len(opened.checkpoint.opened) == 2


def test_in_seconds_and_under_a_gigabyte(done: dict[str, Any]) -> None:
    print({key: value for key, value in done.items() if key.endswith(("_s", "_bytes"))})
    assert done["check_s"] < 30
    assert done["adapt_s"] < 120
    assert done["peak_bytes"] < GIB
    assert (done["torch"], done["numpy"]) == (False, False)


def test_refused_as_it_stands(done: dict[str, Any]) -> None:
    rules = {row["rule"]: row for row in done["before"]["rules"]}
    refused = {name for name, row in rules.items() if row["verdict"] == "refuse"}
    assert refused == {"settings", "head-dim", "d2t-form", "context-length"}
    assert "head_dim is absent, so 112; the weights have 128" in rules["head-dim"]["evidence"]
    assert "reaches 131072 positions, 262144 are to be served" in rules["context-length"]["evidence"]
    assert "[1, 29, 57], states that enter layers" in rules["aux-layers"]["evidence"]
    assert "SGLang 0.5.17 to 0.5.23: [2, 30, 58]" in rules["aux-layers"]["evidence"]


def test_fits_when_adapted(done: dict[str, Any]) -> None:
    rules = {row["rule"]: row for row in done["after"]["rules"]}
    assert {name for name, row in rules.items() if row["verdict"] != "pass"} == {"context-length"}
    assert done["after"]["exit_code"] == 3
    assert "was trained to 131072" in rules["context-length"]["evidence"]
    # 64 heads over 8 ranks, keys and values of 128 numbers of 2 bytes; 61 layers of 512 + 64.
    assert "KV 4096 bytes a token and rank at tp 8, the target's 70272" in rules["cost"]["evidence"]
    # q, k, v 352.3, o 58.7, mlp 396.4, fc 154.1, head 229.4 million.
    assert "1190.9 M parameters" in rules["cost"]["evidence"]
    assert "at least 0." in rules["cost"]["evidence"]
    missing = [text for text, token in SPECIAL.items() if token not in HOT and text not in ("[BOS]", "[EOS]")]
    swapped = next(change for change in done["changes"] if "swapped" in change)
    assert all(text in swapped for text in missing)
    assert rules["vocab-size"]["evidence"] == f"{DRAFT_VOCAB} of 163840 ids"
