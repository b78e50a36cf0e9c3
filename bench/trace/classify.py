"""Kernel classes: which kind of work a device event is, told by its name. The rules are data, in kernels.yaml."""

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple, Self

import yaml

from k25serve.bench.trace.events import KernelName

ALL_REDUCE, COLLECTIVE, COPY, OTHER = "all_reduce", "collective", "copy", "other"
CLASSES = (
    ALL_REDUCE,
    COLLECTIVE,
    *("attention", "moe_gemm", "gemm", "norm", "sampling", COPY, "cast", "draft", OTHER),
)
COMMUNICATION = (ALL_REDUCE, COLLECTIVE)
# Work that other work can hide. Everything else is computation.
NOT_COMPUTE = (*COMMUNICATION, COPY)
UNCLASSIFIED = "unclassified"
# A name that only tells the word: its time counts, its calls are not counted.
NAMED_ALL_REDUCE = re.compile(r"(?i)all_?reduce")


class KernelClass(NamedTuple):
    """`family` is a finer name inside the class; `is_call` is False for a part of a call."""

    name: str
    family: str
    is_call: bool = True


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    collective: re.Pattern[str] | None
    kernel_class: KernelClass


@dataclass(frozen=True, slots=True)
class Classifier:
    """Rules in order."""

    rules: tuple[_Rule, ...]

    @classmethod
    def load(cls) -> Self:
        """The packaged rules."""
        rows = yaml.safe_load(files("k25serve.bench.trace").joinpath("kernels.yaml").read_text(encoding="utf-8"))
        return cls(tuple(_rule(row) for row in rows))

    def classify(self, kernel: KernelName) -> KernelClass:
        """The class of a device event; family UNCLASSIFIED where no rule knows the name."""
        for rule in self.rules:
            if rule.pattern.search(kernel.name) and (
                rule.collective is None or rule.collective.search(kernel.collective)
            ):
                return rule.kernel_class
        if NAMED_ALL_REDUCE.search(kernel.name):
            return KernelClass(ALL_REDUCE, "other", is_call=False)
        return KernelClass(OTHER, UNCLASSIFIED)


def _rule(row: dict[str, str]) -> _Rule:
    if row["class"] not in CLASSES:
        raise ValueError(f"kernels.yaml: class {row['class']!r} is none of {', '.join(CLASSES)}")
    collective = re.compile(row["collective"]) if "collective" in row else None
    kernel_class = KernelClass(row["class"], row["family"], bool(row.get("calls", True)))
    return _Rule(re.compile(row["match"]), collective, kernel_class)
