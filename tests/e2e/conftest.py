"""Engines that tests share: a boot takes 55 to 90 s."""

from collections.abc import Iterator

import pytest
from e2e.stack import Served, boot


@pytest.fixture(scope="session")
def eagle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """EAGLE-3, chain of 3, in fp32."""
    with boot(tmp_path_factory.mktemp("eagle"), "serve", "-p", "cpu-tiny", "--set", "engine.dtype=float32") as served:
        yield served
