"""The registry on a terminal: a list for one target, and everything about one drafter."""

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from k25serve.drafters.check.layout import LLAMA, MLA
from k25serve.drafters.registry.entry import Entry, TargetName
from k25serve.drafters.registry.load import Registry

CAPTION = (
    "?: not published, or not known; check reads the downloaded files.\n"
    "Rows of dflash, mtp and dspark are for information: no profile here serves them."
)

# Attention of the draft layer, which decides its KV cache.
KINDS = {LLAMA: "MHA", MLA: "MLA"}


def list_table(registry: Registry, targets: tuple[TargetName, ...]) -> Table:
    """One row a drafter and target, in the order in which to try them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in ("drafter", "kind", "draft vocabulary", "published accept length"):
        table.add_column(column, no_wrap=column in ("drafter", "kind"))
    for target in targets:
        table.add_section()
        table.add_row(Text(f"for {target}", style="bold"))
        for entry in registry.ranked(target):
            native = entry.trained_for == target
            table.add_row(
                f"  {entry.repo}",
                f"{entry.algorithm} {KINDS.get(entry.architecture, '')}",
                str(entry.draft_vocab_size or "?"),
                _lengths(entry) if native else f"trained for {entry.trained_for}: adapt {entry.adapter}, then measure",
            )
    return table


def _lengths(entry: Entry) -> str:
    return ", ".join(f"{name} {length:.2f}" for name, length in entry.expected().items()) or "?"


def entry_text(registry: Registry, entry: Entry) -> Group:
    """Everything known of one drafter, and how to get it."""
    lines = [
        ("trained for", entry.trained_for),
        ("can serve", ", ".join(registry.targets_of(entry))),
        ("algorithm", f"{entry.algorithm}, {entry.architecture}"),
        ("aux layers", f"{list(entry.aux.ids)}, {entry.aux.convention} convention" if entry.aux else "not known"),
        ("draft vocabulary", str(entry.draft_vocab_size or "not known")),
        ("context", str(entry.max_position_embeddings or "not known")),
        ("known from", entry.known_from),
        ("sources", "; ".join(entry.sources)),
    ]
    facts = Table.grid(padding=(0, 2))
    for name, value in lines:
        facts.add_row(Text(name, style="bold"), value)
    acceptance = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("benchmark", "class", "accept length", "steps,topk,tokens"):
        acceptance.add_column(column)
    for row in entry.acceptance:
        acceptance.add_row(row.benchmark, row.prompt_class, f"{row.accept_length:.3f}", row.setting)
    parts: list[Text | Table] = [Text(entry.repo, style="bold"), facts]
    parts.append(acceptance if entry.acceptance else Text("no acceptance is published"))
    if entry.adapter_costs:
        parts.append(Text(f"adapter {entry.adapter}: {entry.adapter_costs}"))
    if entry.flags:
        parts += [Text("SGLang's flags:", style="bold"), Text("  " + "\n  ".join(entry.flags))]
    if entry.traps:
        parts += [Text("traps:", style="bold"), Text("\n".join(f"- {trap}" for trap in entry.traps))]
    parts += [Text("to get it:", style="bold"), Text(f"  {entry.download}")]
    return Group(*parts)
