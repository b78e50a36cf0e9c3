"""`bench plan`: does speculation pay, at which load, with how many draft tokens."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from k25serve.bench.default_group import DefaultGroup
from k25serve.bench.plan.bounds import CONCURRENCY_AT_MOST, CONTEXT_AT_MOST, K_AT_MOST, RANKS_AT_MOST

if TYPE_CHECKING:
    from k25serve.bench.plan.acceptance import AcceptCurve
    from k25serve.bench.plan.model import Planner

app = typer.Typer(
    cls=DefaultGroup,
    help="Predict the speed-up of speculation from measured terms, and check the prediction. `bench plan` is "
    "`bench plan predict`.",
)

Machine = Annotated[
    str,
    typer.Option(
        "--calibration", "-m", metavar="NAME|FILE", help="rtx6kpro-k26-v4, user-vllm-0.16, or a file like them."
    ),
]
Accept = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE|LIST|A@K",
        help="Accept curve: golden, golden-no-thinking, rtx6kpro; a file; shares by position like 0.83,0.60,0.45 (an "
        "engine's per-position counters); one accept length like 2.9@3; or registry:REPOSITORY[:CLASS], a drafter's "
        "published ones.",
    ),
]
ConcurrencyList = Annotated[
    list[int] | None, typer.Option("--concurrency", "-c", min=1, max=CONCURRENCY_AT_MOST, help="May be repeated.")
]
ContextList = Annotated[
    list[int] | None, typer.Option(min=0, max=CONTEXT_AT_MOST, help="Tokens of context. May be repeated.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", "-c", min=1, max=CONCURRENCY_AT_MOST)]
Context = Annotated[int, typer.Option(min=0, max=CONTEXT_AT_MOST)]
DraftTokens = Annotated[int, typer.Option("-k", min=0, max=K_AT_MOST)]
Method = Annotated[str, typer.Option(metavar="eagle3|ngram")]
Link = Annotated[
    str | None,
    typer.Option(
        "--all-reduce",
        metavar="ALPHA,BETA|FILE",
        help="All-reduces to put in place of the machine's own: us and us per KiB, or a result file of `bench comm`.",
    ),
]
VerifyRows = Annotated[
    str,
    typer.Option(
        metavar="tokens|requests",
        help="How often a verify step reads a request's context: once a draft token (stock kernels), or once a request "
        "(a kernel that tiles heads and draft tokens).",
    ),
]
Results = Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Write a result file, under DIR/plan/.")]

DEFAULT_MACHINE = "rtx6kpro-k26-v4"
DEFAULT_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64, 128)


@app.command()
def predict(
    machine: Machine = DEFAULT_MACHINE,
    accept: Accept = "golden",
    concurrency: ConcurrencyList = None,
    context: ContextList = None,
    k: Annotated[
        list[int] | None, typer.Option("-k", min=1, max=K_AT_MOST, help="EAGLE-3's draft tokens. May be repeated.")
    ] = None,
    ngram_k: Annotated[int, typer.Option(min=0, max=K_AT_MOST, help="N-gram's draft tokens; 0 leaves it out.")] = 5,
    ngram_accept: Annotated[
        str | None,
        typer.Option(metavar="...", help="As --accept, for n-gram. Default: from the user's result."),
    ] = None,
    link: Link = None,
    verify_rows: VerifyRows = "tokens",
    results: Results = None,
) -> None:
    """Speed-up with an interval, break-even accept length and verdict for EAGLE-3, n-gram and none; the best of them.

    Verdict: pays or costs where the 90 % interval lies on one side of 1, else even.
    """
    from k25serve.bench.plan.acceptance import load_accept
    from k25serve.bench.plan.grid import predict_grid
    from k25serve.bench.plan.report import plan_data
    from k25serve.bench.plan.table import show_plan
    from k25serve.bench.provenance import Recorder, write
    from k25serve.server.outputs import check_folder

    check_folder("--results", results)
    recorder = Recorder("plan")
    planner, eagle = _planner(machine, verify_rows, link), load_accept(accept)
    ngram = _ngram_curve(ngram_accept)
    corners = [(c, length) for length in context or [0] for c in concurrency or DEFAULT_CONCURRENCY]
    cells, best = predict_grid(planner, corners, eagle, k or [1, 2, 3, 4, 5], ngram, ngram_k)
    show_plan(planner, cells, best, Console())
    if results is not None:
        data = plan_data(planner, [eagle, ngram], cells, best)
        typer.echo(f"result: {write(recorder.finish(data), results)}", err=True)


@app.command()
def explain(
    concurrency: Concurrency = 1,
    context: Context = 0,
    k: DraftTokens = 3,
    machine: Machine = DEFAULT_MACHINE,
    accept: Accept = "golden",
    method: Method = "eagle3",
    link: Link = None,
    verify_rows: VerifyRows = "tokens",
) -> None:
    """Each term of one cell."""
    from k25serve.bench.plan.acceptance import load_accept
    from k25serve.bench.plan.table import show_cell

    chosen = _method(method)
    planner = _planner(machine, verify_rows, link)
    show_cell(planner.cell(concurrency, context, k, load_accept(accept), chosen), Console())


@app.command()
def validate(
    machine: Machine = DEFAULT_MACHINE,
    bar: Annotated[float, typer.Option(min=0, max=10, help="Mean relative error that is too much.")] = 0.10,
    results: Results = None,
) -> None:
    """Errors on data that was not fitted: columns left out, longer contexts, another run. Exit code 1 above the bar."""
    from k25serve.bench.plan.report import check_row
    from k25serve.bench.plan.table import show_checks
    from k25serve.bench.plan.validate import validate as check
    from k25serve.bench.provenance import Recorder, write
    from k25serve.server.outputs import check_folder

    check_folder("--results", results)
    recorder = Recorder("plan-validate")
    checks = check(machine, bar=bar)
    show_checks(checks, Console())
    if results is not None:
        data = {"checks": [check_row(one) for one in checks]}
        typer.echo(f"result: {write(recorder.finish(data), results)}", err=True)
    if any(one.failed for one in checks):
        raise typer.Exit(1)


@app.command()
def ngram(machine: Machine = "user-vllm-0.16") -> None:
    """What a known n-gram slow-down says about accepted tokens a step."""
    from k25serve.bench.plan.ngram import explain_ngram
    from k25serve.bench.plan.table import show_ngram

    show_ngram(explain_ngram(_planner(machine)), Console())


@app.command()
def layout(
    machine: Machine = DEFAULT_MACHINE,
    concurrency: ConcurrencyList = None,
    hardware: Annotated[str, typer.Option(metavar="NAME")] = "rtx-pro-6000-server",
    half_link: Annotated[
        str | None,
        typer.Option(
            "--half-all-reduce",
            metavar="ALPHA,BETA|FILE",
            help="All-reduces over half the ranks, from `bench comm --ranks`. Default: the machine's own, scaled as a "
            "ring.",
        ),
    ] = None,
) -> None:
    """TP=8 against TP=4 x PP=2 from the same terms; a projection, not checked against any measurement."""
    from k25serve.bench.plan.layout import compare_layouts
    from k25serve.bench.plan.links import load_link
    from k25serve.bench.plan.roofline import load_hardware
    from k25serve.bench.plan.table import show_layouts
    from k25serve.server.errors import UserError

    device = load_hardware(hardware)
    half = load_link(half_link, "--half-all-reduce") if half_link is not None else None
    planner = _planner(machine)
    ranks = planner.machine.ranks
    if ranks < 4 or ranks % 2:
        raise UserError(f"--calibration {machine}: ranks = {ranks}: to halve them takes an even number of 4 or more")
    if half is not None:
        half = half.model_copy(update={"calls": planner.machine.all_reduce.calls})
    sizes = concurrency or DEFAULT_CONCURRENCY
    show_layouts([compare_layouts(planner.curve, device, ranks, c, half) for c in sizes], ranks, Console())


@app.command()
def roofline(
    concurrency: Concurrency = 1,
    context: Context = 0,
    k: DraftTokens = 0,
    model: Annotated[str, typer.Option(metavar="NAME|config.json")] = "kimi-k2.5",
    hardware: Annotated[str, typer.Option(metavar="NAME")] = "rtx-pro-6000-server",
    ranks: Annotated[int, typer.Option(min=1, max=RANKS_AT_MOST)] = 8,
    machine: Annotated[str, typer.Option("--calibration", "-m", metavar="NAME|FILE")] = "user-vllm-0.16",
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A result of `bench trace`: the gaps come from it.")
    ] = None,
) -> None:
    """Bytes and FLOP of a step, the time that memory alone takes, the efficiency, and the largest gap."""
    from k25serve.bench.plan.architecture import load_architecture
    from k25serve.bench.plan.curve import all_reduce_ms
    from k25serve.bench.plan.roofline import gaps_from_terms, gaps_from_trace, load_hardware
    from k25serve.bench.plan.roofline import roofline as measure
    from k25serve.bench.plan.table import show_roofline
    from k25serve.bench.trace.diff import load
    from k25serve.server.errors import UserError

    architecture, device = load_architecture(model), load_hardware(hardware)
    line = measure(architecture, device, ranks, concurrency, context, k)
    if trace is not None:
        report = load(trace)
        if report is None:
            raise UserError(f"--trace {trace}: not a result file of `bench trace`; make one with --results")
        rank = next(rank for rank in report.ranks if rank.rank == report.timeline.rank)
        step = next(mode.span_ms for mode in rank.modes if mode.mode == report.mode)
        gaps = gaps_from_trace(report, line)
    else:
        planner = _planner(machine)
        tokens = concurrency * (k + 1)
        step = planner.curve.step_ms(tokens, context)
        gaps = gaps_from_terms(step, all_reduce_ms(planner.curve.link, architecture, tokens), line)
    show_roofline(line, device, step, gaps, Console())


@app.command()
def adaptive(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="For a profile's speculation.adaptive.")],
    machine: Machine = DEFAULT_MACHINE,
    accept: Accept = "golden",
    context: Annotated[
        int, typer.Option(min=0, max=CONTEXT_AT_MOST, help="Typical context: SGLang's slots know batch sizes only.")
    ] = 0,
    verify_rows: VerifyRows = "tokens",
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", metavar="NAME|FILE", help="Check that its server can adapt.")
    ] = None,
) -> None:
    """Write which numbers of draft steps each batch size may switch between, and what steps cost by batch and context.

    Form of SGLang 0.5.23's --speculative-adaptive-config, with the costs beside it, by which the patch adaptive_costs
    decides; one of the arms is no speculation. EAGLE and EAGLE3 with topk 1 only, not with DP attention, two-batch
    overlap or pdmux.
    """
    import orjson

    from k25serve.bench.plan.acceptance import load_accept
    from k25serve.bench.plan.adaptive import adaptive_config, check_profile
    from k25serve.bench.plan.step_costs import step_costs, with_costs
    from k25serve.server.config import load_profile
    from k25serve.server.outputs import check_file

    check_file("FILE", output)
    if profile is not None:
        check_profile(load_profile(profile, need_models=False))
    planner, curve = _planner(machine, verify_rows), load_accept(accept)
    config = with_costs(adaptive_config(planner, curve, context), step_costs(planner, curve))
    output.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    slots = (f"batch {size}: {slot['candidate_steps']}" for size, slot in config.items() if size.isdigit())
    typer.echo(f"{output}: " + ", ".join(slots))


def _planner(machine: str, verify_rows: str = "tokens", link: str | None = None) -> "Planner":
    from k25serve.bench.plan.calibration import load_calibration
    from k25serve.bench.plan.links import load_link
    from k25serve.bench.plan.model import Planner
    from k25serve.server.errors import UserError

    replaced = load_link(link) if link is not None else None
    if verify_rows == "tokens":
        return Planner.build(load_calibration(machine), verify_rows="tokens", link=replaced)
    if verify_rows == "requests":
        return Planner.build(load_calibration(machine), verify_rows="requests", link=replaced)
    raise UserError(f"--verify-rows {verify_rows}: tokens or requests")


def _ngram_curve(name: str | None) -> "AcceptCurve":
    from k25serve.bench.plan.acceptance import load_accept
    from k25serve.bench.plan.ngram import explain_ngram, ngram_accept

    if name is not None:
        return load_accept(name, "--ngram-accept")
    return ngram_accept(explain_ngram(_planner("user-vllm-0.16")))


def _method(name: str) -> Literal["eagle3", "ngram"]:
    from k25serve.server.errors import UserError

    if name == "eagle3":
        return "eagle3"
    if name == "ngram":
        return "ngram"
    raise UserError(f"--method {name}: eagle3 or ngram")
