"""Which cells a run has, in which order, and how many requests each. Pure."""

from dataclasses import dataclass

from k25serve.bench.load.record import MIXED, Cell
from k25serve.server.errors import UserError

LEVELS = (1, 2, 4, 8, 16, 32, 64, 128)
CLASSES = ("code", "prose", "maths", "chat", "tools", "chinese")
ROUNDS = 2  # requests for each concurrent stream
NATURAL_LEVEL = 4


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """levels: of the sweep over mixed classes. contexts: tokens of synthetic text before each prompt.

    single_stream: also each class by itself at concurrency 1. natural: also each class to its natural end.
    requests: at least so many in a cell.
    """

    levels: tuple[int, ...] = LEVELS
    classes: tuple[str, ...] = CLASSES
    contexts: tuple[int, ...] = (0,)
    requests: int = 12
    single_stream: bool = True
    natural: bool = True

    def __post_init__(self) -> None:
        for option, values, least in (("--level", self.levels, 1), ("--context", self.contexts, 0)):
            for value in values:
                if not least <= value <= 1_000_000:
                    raise UserError(f"{option} {value}: must be from {least} to 1000000")
        for option, given in (("--level", self.levels), ("--class", self.classes), ("--context", self.contexts)):
            if not given or len(set(given)) != len(given):
                raise UserError(
                    f"{option} {', '.join(map(str, given)) or '(none)'}: give each value once, at least one"
                )
        if self.requests < 1:
            raise UserError(f"--requests {self.requests}: must be at least 1")

    def cells(self) -> tuple[Cell, ...]:
        """The sweep first, then the single streams, then the natural ends."""
        found = [Cell(level=level, context_tokens=context) for context in self.contexts for level in self.levels]
        if self.single_stream:
            found += [
                Cell(level=1, prompt_class=name, context_tokens=context)
                for context in self.contexts
                for name in self.classes
            ]
        if self.natural:
            found += [Cell(level=NATURAL_LEVEL, prompt_class=name, phase="natural") for name in self.classes]
        return tuple(found)

    def count(self, cell: Cell) -> int:
        """Requests of a cell: whole rounds of its streams, and of the classes where they are mixed."""
        least = max(self.requests, ROUNDS * cell.level)
        step = cell.level if cell.prompt_class != MIXED or cell.level >= len(self.classes) else len(self.classes)
        return -(-least // step) * step
