"""How many ranks may be asked for, and what every engine and collective of them is started with."""

import os
from pathlib import Path

import pytest

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.proof import main
from k25serve.bench.gpu.ranks.setting import NO_FUSION, NO_MULTICAST, Setting, check_ranks, forbid_multicast
from k25serve.bench.gpu.start import Start


@pytest.mark.parametrize(
    ("ranks", "gpus", "said"),
    [
        (3, 8, r"--tp 3: Kimi-K2.5's 64 heads are split over 1, 2, 4, 8 ranks"),
        (16, 16, "--tp 16: .*give one of these"),
        (0, 8, "--tp 0: "),
        (
            2,
            0,
            r"--tp 2: .*this host has no GPU \(nvidia-smi lists none\); run it on a host with more, or --profile cpu",
        ),
        (2, 1, "this host has one GPU; run it on a host with more"),
        (8, 2, "--tp 8: a rank takes a GPU, this host has 2 GPUs; give --tp 2"),
        (8, 7, "this host has 7 GPUs; give --tp 4"),
    ],
)
def test_what_cannot_be_is_told(ranks: int, gpus: int, said: str) -> None:
    with pytest.raises(ProofError, match=said):
        check_ranks(ranks, "cuda", lambda: gpus)


@pytest.mark.parametrize(("ranks", "device"), [(1, "cuda"), (2, "cpu"), (8, "cpu"), (2, "cuda"), (4, "cuda")])
def test_what_can_be(ranks: int, device: str) -> None:
    check_ranks(ranks, device, lambda: 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tp", "3"], "--tp 3: Kimi-K2.5's 64 heads"),
        (["--tp", "1"], "--stage tp --tp 1: compares ranks; give --tp 2, 4 or 8"),
        (["--tp", "2", "--steps", "links,magic"], "--steps has 'magic'; choose from kernels, links"),
        (["--tp", "2", "--steps", "kernels"], "--steps kernels: needs a GPU; choose from links"),
        (["--tp", "2", "--profile", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments if "--profile" in arguments else ["--profile", "cpu-tiny", *arguments]
    with pytest.raises(SystemExit) as ended:
        main(["--stage", "tp", "--out", str(tmp_path / "out"), *given])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("ranks", "heads"), [(2, 32), (4, 16), (8, 8)])
def test_a_ranks_heads(ranks: int, heads: int, tmp_path: Path) -> None:
    setting = Setting(ranks, "gpu-tiny", "cuda", Start((), (), tmp_path))
    assert (setting.heads, setting.backend) == (heads, "nccl")


def test_fusion_by_multicast_is_off_on_gpus_beside_what_is_given(tmp_path: Path) -> None:
    profile = Setting(2, "gpu-tiny", "cuda", Start((), (), tmp_path)).extra_args
    assert profile[-1] == NO_FUSION
    assert "--sleep-on-idle" in profile
    assert Setting(2, "gpu-tiny", "cuda", Start((), ("--a", "b"), tmp_path)).extra_args == ("--a", "b", NO_FUSION)
    assert NO_FUSION not in Setting(2, "cpu-tiny", "cpu", Start((), (), tmp_path)).extra_args


def test_multicast_is_off_for_all_that_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_MULTICAST:
        monkeypatch.setenv(name, "as before")
    forbid_multicast()
    assert {name: os.environ[name] for name in NO_MULTICAST} == dict(NO_MULTICAST)
