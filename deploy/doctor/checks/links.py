"""Links between GPUs: how they are connected, and a small all-reduce that must come back."""

from k25serve.bench.comm.host import read_host
from k25serve.bench.comm.report import CommReport
from k25serve.deploy.doctor.finding import Finding, ok, skip
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile

LIMIT_S = 12.0  # for each variant: NCCL starts in 3 to 6 s, and a hang is a finding


def check(profile: Profile, machine: Machine) -> list[Finding]:
    """Only where several GPUs are to work together."""
    ranks = profile.engine.tp
    if profile.engine.device == "cpu" or ranks == 1:
        return [skip("links", "one rank, or a profile of the CPU")]
    topology = machine.ask("nvidia-smi", "topo", "-m")
    if topology is None:
        return [skip("links", "nvidia-smi topo -m did not answer")]
    return [judge_topology(topology, ranks), judge_all_reduce(_measure(ranks), ranks)]


def judge_topology(table: str, ranks: int) -> Finding:
    """The kinds of connection between the first `ranks` GPUs, as nvidia-smi names them."""
    rows = [line.split() for line in table.splitlines() if line.startswith("GPU")][:ranks]
    kinds = sorted({word for row in rows for word in row[1 : ranks + 1] if word != "X"})
    evidence = f"between {len(rows)} GPUs: {', '.join(kinds)}"
    if any(kind.startswith("NV") for kind in kinds):
        return ok("links", evidence)
    if "SYS" in kinds:
        return Finding(
            "links", "warn", f"{evidence}; SYS crosses the sockets' interconnect", "NCCL_P2P_LEVEL=SYS in engine.env"
        )
    return ok("links", evidence)


def judge_all_reduce(told: CommReport | None, ranks: int) -> Finding:
    """From `bench comm preflight`: passed as it is, or what hung and which variant of NCCL's settings works."""
    if told is None or not told.runs:
        return Finding(
            "all-reduce", "fail", f"`bench comm` of {ranks} ranks gave no report", "run k25serve bench comm preflight"
        )
    first, *others = told.runs
    if first.passed:
        slowest = max((sample.median_us for sample in first.samples), default=0.0)
        return ok("all-reduce", f"{ranks} ranks, NCCL {first.nccl}: {slowest:.0f} us at the largest size tried")
    stages = ", ".join(f"rank {end.rank} {end.outcome} at {end.stage}" for end in first.ends)
    evidence = f"{ranks} ranks as they are: {stages} ({first.seconds:.0f} s)"
    good = next((run for run in others if run.passed), None)
    if good is None:
        tried = ", ".join(run.variant for run in others) or "nothing else"
        return Finding("all-reduce", "fail", f"{evidence}; {tried} did not help", "see the iommu finding")
    settings = " ".join(f"{name}={value}" for name, value in good.environment.items())
    return Finding("all-reduce", "fail", evidence, f"works with {settings} in engine.env; see the iommu finding")


def _measure(ranks: int) -> CommReport:
    from k25serve.bench.comm.sweep import preflight

    return CommReport(host=read_host(), runs=preflight(ranks, "nccl", LIMIT_S, say=lambda _line: None))
