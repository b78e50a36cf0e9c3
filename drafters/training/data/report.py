"""What `drafter train data` says of its work, as report.json and as a table."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from k25serve.drafters.training.settings import Settings

BUCKETS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)


class Mix(Settings):
    """One class in one split; tokens with the prompts', supervised the assistant's alone."""

    rows: int
    tokens: int
    supervised_tokens: int


class SplitReport(Settings):
    """sha256: of ids, masks, labels and conversation ids, in order; lengths: rows by the size that holds them."""

    rows: int
    conversations: int
    tokens: int
    supervised_tokens: int
    sha256: str
    classes: dict[str, Mix]
    lengths: dict[str, int]


class DataReport(Settings):
    """settings: those that decide the outcome; dropped: conversations by reason; counts: what else was counted."""

    settings: dict[str, Any]
    inputs: list[dict[str, Any]]
    target: dict[str, str]
    train: SplitReport
    held_out: SplitReport
    dropped: dict[str, int]
    counts: dict[str, int]
    versions: dict[str, str]


@dataclass
class Tally:
    """Counts one split while it is written."""

    conversations: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    supervised: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)

    def add(self, label: str, length: int, supervised: int) -> None:
        """A row of `length` tokens."""
        self.rows[label] += 1
        self.tokens[label] += length
        self.supervised[label] += supervised
        self.lengths[next((size for size in BUCKETS if length <= size), BUCKETS[-1] * 2)] += 1

    def report(self, sha256: str) -> SplitReport:
        return SplitReport(
            rows=self.rows.total(),
            conversations=self.conversations,
            tokens=self.tokens.total(),
            supervised_tokens=self.supervised.total(),
            sha256=sha256,
            classes={
                label: Mix(rows=self.rows[label], tokens=self.tokens[label], supervised_tokens=self.supervised[label])
                for label in sorted(self.rows)
            },
            lengths={f"<={size}": self.lengths[size] for size in sorted(self.lengths)},
        )


def report_tables(report: DataReport) -> list[Any]:
    """Class mix, lengths, and what was left out."""
    from rich.table import Table

    mix = Table("split", "class", "rows", "tokens", "supervised", "share", title="Class mix")
    lengths = Table("split", "tokens", "rows", title="Lengths")
    for name, split in (("train", report.train), ("held_out", report.held_out)):
        for label, one in split.classes.items():
            share = one.supervised_tokens / max(1, split.supervised_tokens)
            mix.add_row(name, label, f"{one.rows:,}", f"{one.tokens:,}", f"{one.supervised_tokens:,}", f"{share:.1%}")
        whole = f"{split.rows:,}", f"{split.tokens:,}", f"{split.supervised_tokens:,}"
        mix.add_row(name, "all", *whole, "100.0%" if split.rows else "", end_section=True, style="bold")
        for bucket, rows in split.lengths.items():
            lengths.add_row(name, bucket, f"{rows:,}")
    left_out = Table("left out", "conversations", title="Left out")
    for reason, count in report.dropped.items():
        left_out.add_row(reason, f"{count:,}")
    return [mix, lengths, left_out] if report.dropped else [mix, lengths]
