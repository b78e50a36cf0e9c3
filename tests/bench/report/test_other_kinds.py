"""Traces, comparisons and gates of drafters, links, plans: each shown with the figures of its file."""

import json
from pathlib import Path

from report_files.make import EIGHT, cell, load_data, result
from report_files.read import Page

from k25serve.bench.report import html
from k25serve.bench.report.build import build
from k25serve.bench.report.campaign import load_campaign
from k25serve.bench.report.numbers import number
from k25serve.bench.report.sources import read_sources
from k25serve.bench.report.state import state
from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse


def page(folder: Path) -> Page:
    return Page(html.render(build(read_sources([folder]), load_campaign(None), "t")))


def test_a_trace(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(2):
        synthetic.write(traces / f"9-TP-{rank}.trace.json.gz", synthetic.decode_steps(5, 4, late_us=10.0 * rank))
    report = analyse([traces], title="t")
    result(tmp_path / "results", "trace", report.model_dump(mode="json"))
    mode = next(rank for rank in report.ranks if rank.rank == report.timeline.rank).modes[0]
    rows = page(tmp_path / "results").rows()
    bar = [number(row.summed_ms) for row in mode.classes]
    assert [mode.mode, *bar, number(sum(row.summed_ms for row in mode.classes))] in rows
    row = next(row for row in rows if row[0] == f"{mode.mode}, {report.device}")
    assert row[6:] == [
        number(mode.all_reduce_calls), number(mode.all_reduce_ms / mode.all_reduce_calls * 1000),
        f"{mode.headline.share_of_kernel_sum:.1%}",
    ]  # fmt: skip
    assert mode.all_reduce_calls > 0


def test_a_comparison_of_drafters(tmp_path: Path) -> None:
    def arm(name: str, speed: float, length: float | None, verdict: str) -> dict[str, object]:
        return {
            "name": name, "tokens_per_second": speed, "tokens_per_second_min": speed - 1, "failures": 0,
            "tokens_per_second_max": speed + 1, "accept_length": length, "completion_tokens": 4544, "seconds": 9.0,
            "speedup": speed / 97.4, "verdict": verdict, "passes": [{}, {}],
        }  # fmt: skip

    rows = [arm("none", 97.4, None, "baseline"), arm("ngram", 246.1, 2.412, "faster")]
    result(tmp_path, "drafter-compare", {"baseline": "none", "best": "ngram", "rows": rows})
    shown = page(tmp_path)
    assert ["ngram", "246", "245", "247", "2.41", "2.53", "faster", "2", "4544", "0"] in shown.rows()
    assert "ngram is the fastest of none, ngram, 2.53 times none's tokens/s, within one boot each." in shown.text


def test_a_drafters_gate(tmp_path: Path) -> None:
    group = {"prompts": 12, "requests": 12, "completion_tokens": 900, "accept_length": 2.347}
    gate = {
        "schema": 1, "kind": "drafter-gate", "verdict": "pass", "reasons": [], "url": "http://box", "model": "k2.5",
        "started": "2026-11-30T12:00:00", "seconds": 5.0, "tokens_per_second": 180.0, "overall": group,
        "classes": {"code": group}, "thinking": {"on": group | {"accept_length": 1.234}},
    }  # fmt: skip
    (tmp_path / "k.gate.json").write_text(json.dumps(gate))
    rows = page(tmp_path).rows()
    assert ["code", "2.35", "12", "900"] in rows
    assert ["thinking on", "1.23", "12", "900"] in rows
    assert [*rows[-1][:2], rows[-1][3]] == ["drafter-gate k.gate.json", "-", "not told: a drafter gate's own file"]


def test_links_and_runs_that_hung(tmp_path: Path) -> None:
    host = {
        "kernel_command_line": "", "iommu_groups": 0, "iommu_type": "", "topology": "", "nccl_environment": {},
        "findings": [],
    }  # fmt: skip
    fit = {
        "operation": "all_reduce", "graph": False, "alpha_us": 18.83, "beta_us_per_kib": 0.0801, "bandwidth_gb_s": 12.8,
        "residual_rms": 0.021, "residual_worst": 0.04, "points": 6, "smallest": 16, "largest": 1024,
    }  # fmt: skip
    run = {
        "variant": "p2p", "environment": {}, "plan": {"backend": "nccl", "sizes": [16]}, "ranks": 8, "passed": True,
        "seconds": 1.0, "limit_s": 9.0, "ends": [], "fits": [fit],
    }  # fmt: skip
    end = {"rank": 0, "stage": "warm-up", "outcome": "hung", "exit_code": None}
    hung = run | {"variant": "shm", "passed": False, "fits": [], "ends": [end]}
    result(tmp_path, "comm", {"host": host, "runs": [run, hung]})
    rows = page(tmp_path).rows()
    assert ["p2p, 8 ranks", "all_reduce", "18.8", "0.0801", "2.1%"] in rows
    assert ["shm, 8 ranks", "hung", "-", "-", "-"] in rows


def test_a_plan_stands_beside_what_was_measured_on_its_hardware_only(tmp_path: Path) -> None:
    planned = {
        "method": "eagle3", "concurrency": 1, "context": 0, "k": 3, "speedup": 1.645, "low": 1.22, "high": 2.22,
        "verdict": "pays", "tok_s": 152.0, "plain_ms": 12.12,
    }  # fmt: skip
    calibration = {
        "name": "n", "hardware": "8x RTX PRO 6000 Blackwell, PCIe", "engine": "e", "precision": "p", "model": "m",
    }  # fmt: skip
    result(tmp_path, "plan", {"calibration": calibration, "cells": [planned], "best": [planned]})
    result(tmp_path, "load", load_data(cell(1, 80.0)))
    assert "nothing in these files was measured on that hardware" in page(tmp_path).text
    assert ["1", "0", "eagle3", "3", "1.65 (1.22 to 2.22)", "152", "pays"] in page(tmp_path).rows()
    result(tmp_path / "more", "load", load_data(cell(1, 80.0)), machine=EIGHT)
    beside = next(row for row in page(tmp_path).rows() if row[0].startswith("C=1, 0,"))
    assert beside[1:] == ["82.5", "80"]


def test_the_state_tells_a_line_of_each_kind_that_says_something(tmp_path: Path) -> None:
    greedy = {"none / eagle3": {"prompts": 32, "equal": 15, "largest_gap": 0.9375}}
    result(tmp_path, "gpu-parity", {"greedy": greedy})
    result(tmp_path, "load", load_data(cell(1, 82.5), cell(8, 320.4)))
    told = state(read_sources([tmp_path]), load_campaign(None)).sections[2].blocks[0].items
    assert any(line.endswith("none / eagle3: 15 of 32 equal") for line in told)
    assert any(line.endswith("at most 320 tok/s, at C=8 mixed") for line in told)
