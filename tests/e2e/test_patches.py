"""Patches on the real engine: in place where they belong, and their numbers are the gateway's."""

import pytest
from e2e.counts import check_counts, patches_told
from e2e.stack import Served

pytestmark = pytest.mark.engine


async def test_numbers_of_the_engine_are_those_of_the_gateway(eagle: Served) -> None:
    await check_counts(eagle)


def test_every_process_reported_its_rows(eagle: Served) -> None:
    told = patches_told(eagle)
    assert (told["sglang"], told["device"]) == ("0.5.23", "cpu")
    rows = {one["process"]: one["rows"] for one in told["processes"]}
    assert set(rows) == {"main", "scheduler"}
    assert set(rows["main"]) == {"self_check"}
    assert {"step_seconds", "accepted_tokens", "self_check"} <= set(rows["scheduler"])
    assert "mla_verify" not in rows["scheduler"], "there is no GPU"
    assert rows["scheduler"]["step_seconds"]["facts"] == {"timer": "WallTimer"}
