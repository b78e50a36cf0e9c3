"""Links, steps and traces of a made-up machine whose step times are known."""

from pathlib import Path
from typing import Any

from k25serve.bench.comm.fit import fits
from k25serve.bench.comm.report import CommReport, Host, Plan, RankEnd, Run, Sample
from k25serve.bench.plan.architecture import load_architecture
from k25serve.bench.trace import synthetic
from k25serve.bench.trace.analyse import analyse

ALPHA_US, BETA_US_PER_KIB, CALLS, DRAFT_MS = 12.0, 0.02, 13, 0.4
SIZES = (14336, 57344, 229376, 917504)


def sample(operation: str, size: int, us: float, *, graph: bool) -> Sample:
    return Sample.model_validate(
        {"operation": operation, "nbytes": size, "graph": graph, "median_us": us, "p10_us": us, "p90_us": us}
    )


def run_of(path: str, *, passed: bool = True, slower: float = 1.0) -> Run:
    """A run of `bench comm`; eager calls cost 5 us more than those in graphs."""
    samples = tuple(
        sample(operation, size, slower * (ALPHA_US + BETA_US_PER_KIB * size / 1024) + (0 if graph else 5), graph=graph)
        for operation in ("all_reduce", "all_to_all")
        for graph in (False, True)
        for size in SIZES
    )
    ends = () if passed else (RankEnd(rank=1, stage="building", outcome="failed", exit_code=1, log=("no NVLink",)),)
    return Run.model_validate(
        {
            "variant": "default",
            "environment": {},
            "plan": Plan.model_validate({"backend": "nccl", "path": path, "sizes": SIZES, "graphs": True}),
            "ranks": 8,
            "passed": passed,
            "seconds": 1.0,
            "limit_s": 60.0,
            "ends": ends,
            "samples": samples if passed else (),
            "fits": fits(samples) if passed else (),
        }
    )


def comm_report(*runs: Run) -> dict[str, Any]:
    host = Host(
        kernel_command_line="",
        iommu_groups=0,
        iommu_type="",
        topology="",
        nccl_environment={},
        findings=("IOMMU: off",),
    )
    return CommReport(host=host, runs=runs).model_dump(mode="json")


def step_ms(tokens: int, prefix: int, requests: int) -> float:
    """A machine as the plan's model has it: fixed, experts touched, prefixes read, all-reduces."""
    architecture = load_architecture("kimi-k2.5", "--model")
    link = CALLS * (ALPHA_US + BETA_US_PER_KIB * architecture.token_bytes * tokens / 1024) / 1000
    return 2.0 + 0.02 * architecture.unique_experts(tokens) + prefix * requests * 2e-5 + link


def row(batch: int, prefix: int, **modes: float) -> dict[str, Any]:
    return {
        "batch": batch,
        "prefix": prefix,
        "accept_length": 3.0,
        "tokens_per_second": 100.0,
        "steps_by_mode": {mode: {"steps": 10, "mean_us": ms * 1000} for mode, ms in modes.items()},
    }


def arms() -> dict[str, list[dict[str, Any]]]:
    """Rows of the step `work`."""
    corners = [(batch, prefix) for prefix in (128, 1024, 8192) for batch in (1, 4, 16)]
    context = {128: 0}
    plain = [
        row(batch, prefix, decode=step_ms(batch, context.get(prefix, prefix), batch))
        for batch, prefix in (*corners, (64, 128))
    ]
    drafted = [
        row(
            batch,
            prefix,
            target_verify=step_ms(4 * batch, context.get(prefix, prefix), batch),
            draft=2 * DRAFT_MS,
            draft_extend=DRAFT_MS,
        )
        for batch, prefix in corners
    ]
    return {"none": plain, "eagle3": drafted}


def traced(folder: Path, ranks: int, span: str) -> dict[str, Any]:
    """A report of `bench trace` on `ranks` ranks of one layer, each later at its all-reduce than the one before."""
    folder.mkdir(parents=True)
    for rank in range(ranks):
        rows = synthetic.decode_steps(3, 1, late_us=2.0 * rank)
        renamed = [one._replace(name=span) if one.category == "user_annotation" else one for one in rows]
        synthetic.write(folder / f"7-TP-{rank}.trace.json.gz", renamed, synthetic.header(rank, ranks))
    return analyse([folder]).model_dump(mode="json", exclude={"timeline"})
