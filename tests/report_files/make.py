"""Result files with known figures, as the measuring commands write them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from k25serve.bench.ab.result import AbData, ArmFacts, Comparison, Divergence, Parity, PlanFacts
from k25serve.bench.load.record import Cell
from k25serve.bench.load.result import CellSummary, Clock, Finding, LoadData, Spread
from k25serve.bench.provenance import Machine, Result, write

CPU = Machine(cpu="Test CPU", cores=4, memory_gib=8, system="Linux")
EIGHT = CPU.model_copy(update={"gpus": ("NVIDIA RTX PRO 6000 Blackwell Server Edition",) * 8, "driver": "590"})
SERVER = {"owned_by": "sglang", "version": "0.5.23", "tp_size": "8"}
STARTED = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def result(folder: Path, kind: str, data: dict[str, Any], **changes: Any) -> Path:
    """Write a result file; `changes` are its provenance."""
    fields: dict[str, Any] = {
        "kind": kind, "command": f"k25serve bench {kind}", "git": "a" * 40, "dirty": False, "versions": {},
        "machine": CPU, "started": STARTED, "seconds": 1.0, "data": data,
    }  # fmt: skip
    return write(Result(**(fields | changes)), folder)


def spread(p50: float, p90: float) -> Spread:
    return Spread(n=8, mean=p50, p50=p50, p90=p90, p99=p90)


def cell(level: int, tokens_per_s: float, **changes: Any) -> CellSummary:
    fields: dict[str, Any] = {
        "cell": Cell(level=level), "requests": 8, "failures": 0, "output_tokens": 800, "prompt_tokens": 80,
        "reasoning_tokens": 0, "seconds": 10.0, "tokens_per_s": tokens_per_s, "ttft_s": spread(0.2345, 0.3456),
        "tpot_s": spread(0.01213, 0.01517),
    }  # fmt: skip
    return CellSummary.model_validate(fields | changes)


def load_data(*cells: CellSummary, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "endpoint": "http://box/v1/chat/completions", "model": "kimi-k2.5", "runner": "own", "server": SERVER,
        "body": {}, "seed": 0, "cells": cells, "findings": (), "valid": True,
        "clock": Clock(monotonic_s=10, wall_s=10),
    }  # fmt: skip
    return LoadData.model_validate(fields | changes).model_dump(mode="json")


def comparison(level: int, a: tuple[float, ...], b: tuple[float, ...], **changes: Any) -> Comparison:
    fields: dict[str, Any] = {
        "cell": Cell(level=level), "metric": "tokens_per_s", "values_a": a, "values_b": b, "log_gains": (),
        "gain": 1.25, "low": 1.11, "high": 1.41, "p": 0.0123, "p_adjusted": 0.0246, "detectable": 1.07,
        "outcome": "faster",
    }  # fmt: skip
    return Comparison.model_validate(fields | changes)


def ab_data(*comparisons: Comparison, **changes: Any) -> dict[str, Any]:
    plan = PlanFacts(
        order="ABBA", pairs=2, blocks=1, units=2, scope="across boots", cells=(Cell(level=1),),
        metrics=("tokens_per_s",), tested=1, alpha=0.05, spending="obrien-fleming", looks=(2,), spent=(0.05,),
        nominal=(0.05,), unit_sd=0.02, power=0.8, detectable=1.08, hours=1.0, seed=0,
    )  # fmt: skip
    arms = tuple(
        ArmFacts(name=name, kind="profile", spec=spec, endpoint="http://a/v1", model="kimi-k2.5", server=SERVER)
        for name, spec in (("A", "plain"), ("B", "eagle"))
    )
    between = Divergence(prompts=24, diverged=7, unit="token", compared=900, first=(3,), gaps=(0.25, 0.375))
    parity = Parity(
        between=between, within=between, divergence_p=0.6, sampler=None, structured=(), prompt_tokens=24, mismatched=0,
        outcome="same", reasons=(),
    )  # fmt: skip
    classes = [
        (arm, cell(1, 50.0, cell=Cell(level=1, prompt_class="code"), accept_length=length, position_rate=rates))
        for arm, length, rates in (("A", None, ()), ("B", 2.884, (0.81, 0.62, 0.454)))
    ]
    fields: dict[str, Any] = {
        "outcome": "faster", "verdict": "B is faster than A across boots: +25.0 %.", "scope": "across boots",
        "arms": arms, "plan": plan, "looks": (), "comparisons": comparisons, "same_latency": (), "classes": classes,
        "parity": parity, "findings": (), "valid": True, "turns": (),
    }  # fmt: skip
    return AbData.model_validate(fields | changes).model_dump(mode="json")


def invalid(code: str) -> dict[str, Any]:
    finding = Finding(severity="invalid", code=code, where="C=1 mixed", detail="half of the tokens")
    return {"valid": False, "findings": (finding,)}


def speed_data() -> dict[str, Any]:
    def row(batch: int, tokens_per_second: float, accept_length: float, **modes: float) -> dict[str, Any]:
        steps = {mode: {"steps": 10, "mean_us": us} for mode, us in modes.items()}
        return {
            "batch": batch, "prefix": 1024, "tokens_per_second": tokens_per_second, "accept_length": accept_length,
            "steps_by_mode": steps,
        }  # fmt: skip

    drafted = row(4, 2696.0, 3.0, target_verify=1200.0, draft=600.0, draft_extend=609.0, extend=15000.0)
    predicted = {
        "batch": 4, "prefix": 1024, "cycle_ms": 2.409, "predicted_cycle_ms": 2.65, "speedup": 1.73,
        "predicted_speedup": 1.57,
    }  # fmt: skip
    arms = {"none": [row(4, 2286.0, 1.0, decode=1390.0)], "eagle3": [drafted]}
    return {"tp": 1, "arms": arms, "predicted": [predicted], "failed": []}
