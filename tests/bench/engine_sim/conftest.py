import asyncio

import pytest


@pytest.fixture
def eventually():
    """Waits up to `seconds` for `holds()`."""

    async def wait(holds, seconds=2.0):
        for _ in range(int(seconds / 0.005)):
            if holds():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it did not come true")

    return wait
