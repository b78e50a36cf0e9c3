"""What `drafter train vocab` says of its work."""

from typing import Any

from k25serve.drafters.training.settings import Settings


class Coverage(Settings):
    """Supervised tokens of one class, and those among them that the drafter can draft."""

    tokens: int
    covered: int

    @property
    def share(self) -> float:
        return self.covered / self.tokens if self.tokens else 0.0


class VocabReport(Settings):
    """reduced: whether the drafter's vocabulary is smaller than the target's, so that its checkpoint needs the maps.

    seen: ids that occur in the answers of train; always: ids kept whatever their count, by text; data: the splits'
    hashes; coverage: by split, then by class and over `all`.
    """

    vocab_size: int
    draft_vocab_size: int
    reduced: bool
    seen: int
    always: dict[str, int]
    data: dict[str, str]
    coverage: dict[str, dict[str, Coverage]]


def coverage_table(report: VocabReport) -> Any:
    """Coverage by split and class."""
    from rich.table import Table

    kind = f"{report.draft_vocab_size:,} of {report.vocab_size:,} tokens, {report.seen:,} seen in train"
    table = Table("split", "class", "supervised tokens", "covered", title=f"Coverage: {kind}")
    for split, classes in report.coverage.items():
        for label, one in classes.items():
            share = f"{one.share:.2%}" if one.tokens else ""
            table.add_row(split, label, f"{one.tokens:,}", share, end_section=label == "all")
    return table
