"""Sweeps -> criteria, gains, one sentence for each profile. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k25serve.bench.ab.stats.paired_t import paired_t
from k25serve.bench.load import metrics
from k25serve.bench.load.record import MIXED, Frozen, RequestRecord
from k25serve.bench.load.result import CellSummary, LoadData
from k25serve.bench.prove.configuration import Targets

ALPHA = 0.05
# fp8_e4m3, fp8_e5m2, int8, fp4_e2m1, nvfp4: fewer bits than the model's own.
QUANTISED = re.compile(r"(fp|int|float)[48]|e[245]m[123]")
MODELS_OWN = "the model's own"


class Criterion(Frozen):
    """One thing that was asked. met: None where it could not be told."""

    what: str
    wanted: str
    found: str
    met: bool | None


class Gain(Frozen):
    """The profile over the baseline, above 1 where it is faster. tpot: paired over the same prompts, 95 % interval."""

    level: int
    tokens_per_s: float
    tpot: float | None = None
    tpot_low: float | None = None
    tpot_high: float | None = None
    prompts: int = 0


class ProfileVerdict(Frozen):
    """A profile against the targets and the baseline."""

    profile: str
    criteria: tuple[Criterion, ...]
    gains: tuple[Gain, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Swept:
    """An arm's sweep. kv: its cache's precision, None where nobody told."""

    name: str
    data: LoadData
    records: Sequence[RequestRecord]
    kv: str | None


def judge(targets: Targets, baseline: Swept, profile: Swept) -> ProfileVerdict:
    """Scope: these boots, one of each arm. `k25serve bench ab` tells what holds across boots."""
    criteria = (*_speed(targets, profile), _kv(baseline, profile))
    gains = tuple(_gains(baseline, profile))
    return ProfileVerdict(
        profile=profile.name, criteria=criteria, gains=gains, sentence=_sentence(profile.name, criteria, gains)
    )


def mixed_cells(data: LoadData) -> dict[int, CellSummary]:
    """The sweep's cells by level."""
    return {one.cell.level: one for one in data.cells if one.cell.prompt_class == MIXED}


def _speed(targets: Targets, profile: Swept) -> Sequence[Criterion]:
    cells = mixed_cells(profile.data)
    single, total = cells.get(1), cells.get(targets.total_level)
    rate = None if single is None or single.tpot_s is None else 1 / single.tpot_s.mean
    throughput = None if total is None else total.tokens_per_s
    return (
        Criterion(
            what="C=1, tok/s of a stream (1 / TPOT)",
            wanted=f"more than {targets.single_tok_s:g}",
            found="not measured" if rate is None else f"{rate:.1f}",
            met=None if rate is None else rate > targets.single_tok_s,
        ),
        Criterion(
            what=f"C={targets.total_level}, tok/s in all",
            wanted=f"at least {targets.total_tok_s:g}",
            found="not measured" if throughput is None else f"{throughput:.1f}",
            met=None if throughput is None else throughput >= targets.total_tok_s,
        ),
    )


def _kv(baseline: Swept, profile: Swept) -> Criterion:
    theirs, ours = precision(baseline.kv), precision(profile.kv)
    known = theirs is not None and ours is not None
    return Criterion(
        what="KV cache precision",
        wanted=f"the baseline's: {theirs or 'not told, pass --baseline-kv'}",
        found=ours or "not told",
        met=theirs == ours if known else None,
    )


def precision(kv: str | None) -> str | None:
    """Names that engines give the same thing, as one."""
    return None if kv is None else kv if QUANTISED.search(kv) else MODELS_OWN


def _gains(baseline: Swept, profile: Swept) -> Sequence[Gain]:
    before, after = mixed_cells(baseline.data), mixed_cells(profile.data)
    found = []
    for level in sorted(before.keys() & after.keys()):
        gain = Gain(level=level, tokens_per_s=after[level].tokens_per_s / before[level].tokens_per_s)
        if level == 1:  # one request after the other: the only level whose requests are independent
            gain = gain.model_copy(update=_paired(_tpots(baseline.records), _tpots(profile.records)))
        found.append(gain)
    return found


def _tpots(records: Sequence[RequestRecord]) -> dict[str, float]:
    """By prompt, of the single stream."""
    alone = [one for one in records if one.cell.level == 1 and one.cell.prompt_class == MIXED]
    return {one.asked.prompt_sha256: value for one in alone if metrics.answered(one) and (value := metrics.tpot(one))}


def _paired(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float | int | None]:
    both = sorted(before.keys() & after.keys())
    if not both:
        return {}
    test = paired_t([math.log(before[prompt] / after[prompt]) for prompt in both], ALPHA)
    bounded = math.isfinite(test.low) and math.isfinite(test.high)
    return {
        "tpot": math.exp(test.mean),
        "tpot_low": math.exp(test.low) if bounded else None,
        "tpot_high": math.exp(test.high) if bounded else None,
        "prompts": test.n,
    }


def _sentence(name: str, criteria: Sequence[Criterion], gains: Sequence[Gain]) -> str:
    missed = [one for one in criteria if one.met is False]
    untold = [one for one in criteria if one.met is None]
    if missed:
        word = "misses " + " and ".join(f"{one.what}: {one.found}, wanted {one.wanted}" for one in missed)
    elif untold:
        word = "is not settled: " + " and ".join(f"{one.what} {one.found} (wanted {one.wanted})" for one in untold)
    else:
        word = "meets every target: " + ", ".join(f"{one.what} {one.found}" for one in criteria)
    single = next((one for one in gains if one.tpot is not None), None)
    if single is None:
        return f"{name} {word}."
    interval = ""
    if single.tpot_low is not None and single.tpot_high is not None:
        holds_1 = ", which holds 1" if single.tpot_low <= 1 <= single.tpot_high else ""
        interval = f", 95 % {single.tpot_low:.2f} to {single.tpot_high:.2f}{holds_1}"
    return (
        f"{name} {word}. Against the baseline at C=1 it decodes {single.tpot:.2f} times as fast "
        f"({single.prompts} prompts{interval}; within these boots)."
    )
