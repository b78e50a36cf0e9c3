"""`k25serve drafter ...`: argv -> call. Heavy imports wait inside the commands."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from k25serve.drafters.checkpoint.errors import AdaptError, GateError
from k25serve.drafters.training.cli import app as train
from k25serve.drafters.training.one_line import one_line_errors

CODES = "Exit codes: 0 pass, 1 refuse, 3 warn; 2 a mistake in the command or a folder that cannot be read."
# host:port, which is no profile's name.
ADDRESS = re.compile(r"[^/:]+:\d+(/.*)?")

app = typer.Typer(
    name="drafter",
    no_args_is_help=True,
    help="Draft models: does one fit, make it fit, which there are, does it work; train one. " + CODES,
)
app.add_typer(train)


AuxConvention = Literal["auto", "input", "output"]
Adapters = Literal["kimi_k2", "speculators", "specforge", "eagle", "vllm"]
Targets = Literal["K2", "K2-Thinking", "K2.5", "K2.6"]

Drafter = Annotated[Path, typer.Option("--drafter", metavar="FOLDER", help="The draft model's folder.")]
TargetFolder = Annotated[
    Path, typer.Option("--target", metavar="FOLDER", help="The target's folder; only headers are read.")
]
ContextLength = Annotated[
    int | None, typer.Option(min=1, help="The context length to be served; by default the target's own maximum.")
]
Convention = Annotated[
    AuxConvention,
    typer.Option(help="What the trainer's aux layer ids mean: the layer that a state enters, or that it leaves."),
]
DefaultAux = Annotated[
    bool, typer.Option("--accept-default-aux", help="Take [2, L//2, L-3] where config.json names none.")
]
EntryName = Annotated[
    str | None,
    typer.Option("--entry", metavar="REPO", help="The drafter's entry in the registry, as `drafter list` names it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
OutFile = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write the result there, as JSON.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="The most tokens of each answer.")]
Concurrency = Annotated[int, typer.Option(min=1, help="How many requests run at the same time.")]


@app.command(epilog=CODES)
def check(
    drafter: Drafter,
    target: TargetFolder,
    context_length: ContextLength = None,
    draft_quantization: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="What the launch states for the drafter; unquant is what k25serve states, inherit: nothing is stated.",
        ),
    ] = "unquant",
    aux_convention: Convention = "auto",
    accept_default_aux: DefaultAux = False,
    entry: EntryName = None,
    tp: Annotated[int, typer.Option(min=1, help="Ranks, for the estimate of memory and time.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Say whether a drafter fits its target, rule by rule, from config files and headers."""
    from k25serve.drafters.check import Options, check_drafter

    with one_line_errors():
        options = Options(
            draft_quantization=None if draft_quantization == "inherit" else draft_quantization,
            aux_convention=aux_convention,
            accept_default_aux=accept_default_aux,
            entry=_entry(entry),
            tp=tp,
        )
        report = check_drafter(drafter, target, context_length, options)
        _show_report(report, as_json)
    raise typer.Exit(report.exit_code)


@app.command(epilog=CODES)
def adapt(
    adapter: Annotated[Adapters, typer.Argument(help="Which format it comes from; vllm: from SGLang's to vLLM's.")],
    drafter: Drafter,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="A new folder.")],
    target: Annotated[Path | None, typer.Option("--target", metavar="FOLDER", help="The target's folder.")] = None,
    context_length: ContextLength = None,
    aux_layers: Annotated[str | None, typer.Option(metavar="2,30,58", help="The trainer's aux layer ids.")] = None,
    aux_convention: Convention = "auto",
    accept_default_aux: DefaultAux = False,
    d2t_form: Annotated[
        Literal["offset", "absolute"] | None, typer.Option(help="The form of d2t, where the file leaves it open.")
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|rank", help="Token counts (JSON) by which special tokens take the rarest ids' places."
        ),
    ] = None,
    keep_vocabulary: Annotated[
        bool, typer.Option("--keep-vocabulary", help="Leave missing special tokens out of the draft vocabulary.")
    ] = False,
    lend_lm_head: Annotated[
        bool, typer.Option("--lend-lm-head", help="Use the target's head where lm_head is missing.")
    ] = False,
    dtype: Annotated[Literal["bf16", "f16", "f32"] | None, typer.Option(help="Cast the weights.")] = None,
    layout: Annotated[
        Literal["midlayer", "layers", "model-layers"] | None,
        typer.Option(help="Tensor names to write, midlayer by default; eagle only."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite a drafter for SGLang (or vLLM) into a new folder, say what was done, and check the result."""
    from k25serve.drafters.adapters import AdaptOptions
    from k25serve.drafters.adapters import adapt as run

    with one_line_errors():
        options = AdaptOptions(
            context_length=context_length,
            aux_layers=_layers(aux_layers),
            aux_convention=aux_convention,
            accept_default_aux=accept_default_aux,
            d2t_form=d2t_form,
            counts=counts,
            keep_vocabulary=keep_vocabulary,
            lend_lm_head=lend_lm_head,
            dtype=dtype,
            layout=layout,
        )
        adapted = run(adapter, drafter, out, target, options)
        for change in adapted.changes:
            typer.echo(f"- {change}", err=as_json)
        typer.echo(f"written: {adapted.folder}", err=as_json)
        if target is None or adapted.checks:
            return _show_unchecked(adapted, as_json)
        from k25serve.drafters.check import check_drafter

        report = check_drafter(out, target, context_length)
        _show_report(report, as_json)
    raise typer.Exit(report.exit_code)


@app.command("list")
def list_drafters(
    target: Annotated[Targets | None, typer.Option("--for", help="One target's drafters only.")] = None,
    as_json: AsJson = False,
) -> None:
    """The public drafters, for each target in the order in which to try them: native ones first."""
    from k25serve.drafters.registry import load_registry

    with one_line_errors():
        registry = load_registry()
        targets = tuple(registry.first) if target is None else (target,)
        if as_json:
            ranked = {
                name: [e.model_dump(mode="json", by_alias=True) for e in registry.ranked(name)] for name in targets
            }
            return typer.echo(json.dumps(ranked, indent=2))
        from k25serve.drafters.registry.tables import list_table

        _print(list_table(registry, targets))


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="REPO")], as_json: AsJson = False) -> None:
    """All that is known of one public drafter: layers, acceptance, flags, traps, how to get it."""
    from k25serve.drafters.registry import load_registry

    with one_line_errors():
        registry = load_registry()
        entry = registry.get(name)
        if as_json:
            return typer.echo(json.dumps(entry.model_dump(mode="json", by_alias=True), indent=2))
        from k25serve.drafters.registry.tables import entry_text

        _print(entry_text(registry, entry))


@app.command(epilog=CODES)
def gate(
    url: Annotated[str, typer.Option(metavar="URL", help="A running engine, SGLang or vLLM.")],
    model: Annotated[
        str | None, typer.Option(help="The served model's name; by default the first that the engine lists.")
    ] = None,
    entry: EntryName = None,
    accept_floor: Annotated[
        float, typer.Option(min=1.0, help="The lowest accept length, over all prompts, that passes.")
    ] = 1.3,
    policy: Annotated[
        Literal["warn", "refuse"], typer.Option(help="Verdict for an accept length below the floor.")
    ] = "warn",
    max_tokens: MaxTokens = 256,
    concurrency: Concurrency = 4,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Send 50 packaged prompts through a running engine and judge what is accepted, overall and by class."""
    from k25serve.drafters.gate import GateSettings, gate_table, run_gate, write_json

    with one_line_errors():
        known = _entry(entry)
        settings = GateSettings(
            accept_floor=accept_floor,
            policy=policy,
            expected=known.expected() if known else {},
            max_tokens=max_tokens,
            concurrency=concurrency,
        )
        result = asyncio.run(run_gate(url, settings, model))
        if out is not None:
            write_json(result.as_json(), out)
        _show(result.as_json(), as_json, lambda: gate_table(result))
    raise typer.Exit(result.exit_code)


@app.command()
def compare(
    context: typer.Context,
    arms: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=URL|NAME=PROFILE...", help="Each a name with a running engine, or with a profile to start."
        ),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="The arm to compare with; by default the one without speculation.")
    ] = None,
    passes: Annotated[
        int,
        typer.Option(
            min=1,
            help="How often each arm answers all prompts; a verdict needs two or more. "
            "N-gram speculation remembers answers: passes after its first flatter it.",
        ),
    ] = 3,
    max_tokens: MaxTokens = 256,
    concurrency: Concurrency = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Also write a result file with its provenance there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The same prompts through several engines in turn: tokens a second, acceptance, and what is faster."""
    from k25serve.drafters.gate import GateSettings, comparison_table
    from k25serve.drafters.gate import compare as run
    from k25serve.drafters.gate.host import Host

    host: Host = context.obj
    with one_line_errors():
        chosen = [_arm(text) for text in arms]
        finish = host.start_record("drafter-compare")
        settings = replace(GateSettings(), max_tokens=max_tokens, concurrency=concurrency)
        comparison = asyncio.run(run(chosen, settings, host.boot, baseline, passes))
        if out is not None:
            typer.echo(f"result file: {finish(comparison.as_json(), out)}", err=True)
        _show(comparison.as_json(), as_json, lambda: comparison_table(comparison))


def _entry(name: str | None) -> Any:
    if name is None:
        return None
    from k25serve.drafters.registry import load_registry

    return load_registry().get(name)


def _layers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise AdaptError(f"--aux-layers {text}: not numbers between commas; give them like 2,30,58") from None


def _arm(text: str) -> Any:
    from k25serve.drafters.gate import Arm

    name, found, source = text.partition("=")
    if not (name and found and source):
        raise GateError(
            f"arm {text!r}: not NAME=URL or NAME=PROFILE; give it like none=http://127.0.0.1:30000 or eagle3=cpu-tiny"
        )
    if ADDRESS.fullmatch(source):
        raise GateError(f"arm {text!r}: the scheme is missing; give {name}=http://{source}")
    return Arm(name, url=source) if source.startswith(("http://", "https://")) else Arm(name, profile=source)


def _show_report(report: Any, as_json: bool) -> None:
    from k25serve.drafters.check import report_table

    _show(report.as_json(), as_json, lambda: report_table(report))


def _show_unchecked(adapted: Any, as_json: bool) -> None:
    """What the adapter itself made sure of, where SGLang's check is not run."""
    if as_json:
        return typer.echo(json.dumps(adapted.as_json(), indent=2))
    for one in adapted.checks:
        typer.echo(f"checked: {one}")
    why = "does not apply to vLLM's form" if adapted.checks else "was not run: it needs --target"
    typer.echo(f"SGLang's check (k25serve drafter check) {why}")


def _show(value: dict[str, Any], as_json: bool, table: Any) -> None:
    if as_json:
        return typer.echo(json.dumps(value, indent=2))
    _print(table())


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console().print(renderable)
