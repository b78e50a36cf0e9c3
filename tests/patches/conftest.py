"""SGLang imported for the CPU, in this process, on the stand-in: about six seconds, once."""

import importlib
import warnings
from collections.abc import Iterator

import pytest
import torch

from k25serve.patches import launch
from k25serve.patches.reference import stand_in


@pytest.fixture(scope="session")
def sglang_on_cpu() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in launch.cpu_environment([], {}, [0]).items():
            patch.setenv(name, value)
        if not stand_in.is_installed():
            stand_in.install()
        importlib.import_module("sglang.srt.managers.scheduler")
        importlib.import_module("k25serve.patches.reference.install")
        yield


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
