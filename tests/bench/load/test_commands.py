"""`k25serve bench load` as a user runs it."""

import asyncio
import sys
from pathlib import Path

import orjson
from command_line.call import call
from load_records.engines import Turning, engine

from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions
from k25serve.bench.load.record import RequestRecord
from k25serve.bench.load.records_file import read_records
from k25serve.bench.load.result import LoadData
from k25serve.bench.load.summary import summarise
from k25serve.bench.provenance import read, sha256

K25SERVE = Path(sys.executable).with_name("k25serve")
SMALL = ("--level", "4", "--class", "code", "--requests", "8", "--tokens", "16", "--no-single-stream", "--no-natural")


async def command(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        K25SERVE, "bench", "load", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, told.decode()


async def test_a_run_leaves_a_result_and_its_records(tmp_path: Path) -> None:
    async with running(engine()) as url:
        code, told = await command("--url", f"{url}/v1", *SMALL, "--results", str(tmp_path), "--price-per-hour", "9")
    assert code == 0, told
    assert f"{url}/v1/chat/completions" in told
    assert "INVALID" not in told
    [path] = (tmp_path / "load").glob("*.json")
    result = read(path)
    data = LoadData.model_validate(result.data)
    assert result.kind == "load"
    assert data.valid
    records_path = path.with_name(data.records_file)
    assert sha256(records_path) == data.records_sha256
    records = read_records(records_path)
    again = summarise(records[0].cell, records, price_per_hour=9)
    told_cell = data.cells[0].model_copy(update={"client_cpu_share": None})
    assert again == told_cell
    assert data.cells[0].price is not None
    assert RequestRecord.model_validate(orjson.loads(records[0].model_dump_json())) == records[0]


async def test_an_invalid_run_has_a_banner_and_an_exit_code(tmp_path: Path) -> None:
    async with running(Turning(engine(SimOptions(cached_tokens=0, accepted=())))) as url:
        code, told = await command("--url", url, *SMALL, "--results", str(tmp_path))
    assert code == 1
    assert "INVALID: these figures must not be used" in told
    assert "short: C=4 mixed" in told
    [path] = (tmp_path / "load").glob("*.json")
    assert read(path).data["valid"] is False


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for words, message in (
        (("--url", "h:8000"), "--url h:8000: no http"),
        (("--url", "http://127.0.0.1:9"), "lists no model"),
        (("--url", "http://127.0.0.1:9", "--class", "x"), "--class x: none of"),
        (("--url", "http://127.0.0.1:9", "--aiperf", "x"), "--aiperf x: has no effect"),
    ):
        answer = call("bench", "load", *words, "--results", tmp_path)
        assert (answer.returncode, answer.stdout) == (2, "")
        line = answer.stderr.splitlines()[-1]
        assert line.startswith("k25serve: error: ")
        assert message in line
