"""Result files: written once, read back whole, refused when they are something else."""

from pathlib import Path

import orjson
import pytest
from pydantic import ValidationError

from k25serve.bench import provenance


@pytest.fixture
def result(tmp_path: Path) -> provenance.Result:
    source = tmp_path / "input.txt"
    source.write_text("abc")
    return provenance.Recorder("demo-kind", ["k25serve", "bench", "x"]).finish({"tok_s": 1.5}, [source], "a note")


def test_round_trip(result: provenance.Result, tmp_path: Path) -> None:
    path = provenance.write(result, tmp_path)
    assert path.parent == tmp_path / "demo-kind"
    assert provenance.read(path) == result


def test_fields_are_those_of_the_interface(result: provenance.Result, tmp_path: Path) -> None:
    raw = orjson.loads(provenance.write(result, tmp_path).read_bytes())
    assert list(raw) == [
        *("schema", "kind", "command", "git", "dirty", "versions", "machine"),
        *("started", "seconds", "inputs", "data", "notes"),
    ]
    assert raw["command"] == "k25serve bench x"
    assert raw["inputs"] == {"input.txt": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    assert raw["machine"]["cores"] >= 1
    assert raw["machine"]["cpu"]
    assert {"python", "k25serve"} <= raw["versions"].keys()


def test_never_overwrites(result: provenance.Result, tmp_path: Path) -> None:
    provenance.write(result, tmp_path)
    with pytest.raises(FileExistsError, match="never overwritten"):
        provenance.write(result, tmp_path)


def test_two_runs_of_one_second_are_both_kept(result: provenance.Result, tmp_path: Path) -> None:
    other = result.model_copy(update={"started": result.started.replace(microsecond=result.started.microsecond ^ 1)})
    paths = [provenance.write(one, tmp_path) for one in (result, other)]
    assert [provenance.read(path) for path in paths] == [result, other]


@pytest.mark.parametrize("change", [{"schema": 2}, {"kind": "No Good"}, {"extra": 1}, {"seconds": -1}])
def test_refuses_what_is_not_a_result(result: provenance.Result, tmp_path: Path, change: dict[str, object]) -> None:
    path = provenance.write(result, tmp_path)
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **change}))
    with pytest.raises(ValidationError):
        provenance.read(path)
