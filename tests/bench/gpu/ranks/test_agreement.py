"""When ranks agree, when they don't, and what their engines are started with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from k25serve.bench.gpu.booted import Booted, ProofError
from k25serve.bench.gpu.ranks import engines
from k25serve.bench.gpu.ranks.agreement import GAP_AT_MOST, _judge
from k25serve.bench.gpu.ranks.setting import NO_FUSION, Setting
from k25serve.bench.gpu.start import Start


def parity(equal: int, gap: float) -> dict[str, Any]:
    return {"prompts": 16, "equal": equal, "largest_gap": gap, "partings": [{"prompt": 3}]}


@pytest.mark.parametrize(("exact", "equal", "gap"), [(True, 16, 0.0), (False, 16, 0.0), (False, 9, GAP_AT_MOST)])
def test_answers_agree(exact: bool, equal: int, gap: float) -> None:
    _judge(parity(equal, gap), exact)


@pytest.mark.parametrize(
    ("exact", "equal", "gap", "said"),
    [
        (True, 15, 0.001, r"part in fp32: \[\{'prompt': 3\}\]"),
        (False, 9, 1.5, "the two best tokens are 1.50 logits apart"),
        (False, 9, float("nan"), "nan logits apart"),
    ],
)
def test_answers_part(exact: bool, equal: int, gap: float, said: str) -> None:
    with pytest.raises(ProofError, match=said):
        _judge(parity(equal, gap), exact)


@pytest.mark.parametrize(
    ("profile", "device", "drafts"),
    [("gpu-tiny", "cuda", True), ("gpu-tiny", "cuda", False), ("cpu-tiny", "cpu", True)],
)
def test_the_engines_values(
    profile: str, device: str, drafts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    @contextmanager
    def boot(name: str, _profile: str, overrides: Sequence[str], folder: Path, **_: Any) -> Iterator[Booted]:
        asked.append(overrides)
        yield Booted(name, "", "", folder, 0.0, 0)

    (tmp_path / "wide").mkdir()
    monkeypatch.setattr(engines, "boot", boot)
    setting = Setting(4, profile, device, Start(("engine.version=0.5.17", "engine.tp=4"), (), tmp_path))
    with engines.serving(setting, "one", 1, drafts=drafts):
        pass
    (found,) = asked
    assert found[0] == "engine.version=0.5.17"
    assert [one for one in found if one.startswith("engine.tp=")] == ["engine.tp=1"]
    assert ("engine.dtype=float32" in found) == (device == "cpu")
    assert any(NO_FUSION in one for one in found) == (device == "cuda")
    assert ("speculation.algorithm=none" in found) == (not drafts)
    assert f"target={tmp_path}/wide/target" in found
