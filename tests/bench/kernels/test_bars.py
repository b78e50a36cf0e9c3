"""The bars, the table and the step that makes a result file, on numbers made up here."""

import json
from pathlib import Path

import pytest

from k25serve.bench import provenance
from k25serve.bench.kernels import __main__
from k25serve.bench.kernels.bars import bars_of
from k25serve.bench.kernels.contenders import EXTEND, OURS, VERIFY_MLA
from k25serve.bench.kernels.shapes import SHAPES, Shape
from k25serve.bench.kernels.table import lines


def data_of(ours: float, extend: float, verify: float, roof: float) -> dict[str, object]:
    times = {OURS: ours, EXTEND: extend, VERIFY_MLA: verify}
    shapes = [
        {
            "batch": shape.batch,
            "prefix": shape.prefix,
            "roof_us": roof,
            "contenders": {name: {"us": us, "error": 1.5e-3} for name, us in times.items()},
        }
        for shape in SHAPES
    ]
    return {"heads": 8, "copy_bytes_per_second": 4.2e12, "launch_floor_us": 6.0, "shapes": shapes}


def test_every_bar_is_there_and_met() -> None:
    bars = bars_of(data_of(ours=10.0, extend=1700.0, verify=26.0, roof=6.0))
    assert len(bars) == 3 + 16 + 3 + 1
    assert all(bar.met for bar in bars)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"ours": 17.1}, ["1 x 1k: us"]),
        ({"roof": 4.9}, ["4 x 128k: fraction", "16 x 32k: fraction", "64 x 8k: fraction"]),
        ({"extend": 1640.0}, ["1 x 32k: times faster than SGLang extend"]),
    ],
)
def test_a_missed_bar_is_named(change: dict[str, float], names: list[str]) -> None:
    numbers = {"ours": 10.0, "extend": 1700.0 * 2, "verify": 50.0, "roof": 9.0} | change
    if "extend" not in change:
        numbers["verify"] = 50.0
    missed = [bar.name for bar in bars_of(data_of(**numbers)) if not bar.met]
    assert len(missed) == len(names)
    assert all(found.startswith(name) for found, name in zip(missed, names, strict=True))


def test_verify_bar_is_lower_at_1k() -> None:
    bars = bars_of(data_of(ours=10.0, extend=9e9, verify=14.0, roof=9.0))
    assert {bar.name for bar in bars if not bar.met} == {
        f"{shape}: times faster than {VERIFY_MLA}" for shape in SHAPES if shape.prefix > 1024
    }


def test_other_heads_have_no_bars() -> None:
    """They were set for a rank of TP=8."""
    assert bars_of(data_of(ours=10.0, extend=1700.0, verify=26.0, roof=6.0) | {"heads": 32}) == []


def test_bytes_that_must_be_read() -> None:
    assert Shape(4, 131072).cache_bytes == 4 * 131072 * 1152


def test_table_has_a_line_a_shape() -> None:
    text = list(lines(data_of(10.0, 1700.0, 26.0, 6.0)))
    assert sum(line.startswith("| 1 x 1k |") for line in text) == 1
    assert len([line for line in text if line.startswith("| ") and " x " in line]) == 1 + len(SHAPES)
    assert "met  1 x 1k: us: 10.00 (bar <= 17)" in text


def test_finish_makes_a_result_file(tmp_path: Path, capsys) -> None:
    raw = tmp_path / "kernels.json"
    machine = {"cpu": "c", "cores": 16, "memory_gib": 128.0, "system": "s", "gpus": ["NVIDIA H200"], "driver": "580"}
    raw.write_text(
        json.dumps(
            {
                "command": "python -P -m k25serve.bench.kernels --out out",
                "started": "2026-11-29T10:00:00+00:00",
                "seconds": 61.5,
                "versions": {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0"},
                "machine": machine,
                "inputs": {"triton.py": "00"},
                "data": data_of(10.0, 1700.0, 26.0, 6.0),
            }
        )
    )
    assert __main__.main(["--finish", str(raw), "--out", str(tmp_path), "--notes", "by hand"]) == 0
    path = tmp_path / "kernels" / "20261129T100000Z.json"
    assert str(path) in capsys.readouterr().out
    result = provenance.read(path)
    assert result.machine.gpus == ("NVIDIA H200",)
    assert result.versions["triton"] == "3.6.0"
    assert (result.seconds, result.notes, result.command) == (
        61.5,
        "by hand",
        "python -P -m k25serve.bench.kernels --out out",
    )
    assert result.data["shapes"][0]["batch"] == 1
    with pytest.raises(FileExistsError):
        __main__.main(["--finish", str(raw), "--out", str(tmp_path)])
