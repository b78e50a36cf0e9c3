"""One turn of one arm: what was run in it. Kept as JSON, so that an interrupted A/B goes on where it was."""

from pydantic import NonNegativeFloat, NonNegativeInt

from k25serve.bench.ab.parity.sample import ParitySample
from k25serve.bench.ab.result import Arm
from k25serve.bench.load.record import Cell, Frozen, RequestRecord
from k25serve.bench.load.result import Clock


class CellRun(Frozen):
    """One cell in one block of a turn."""

    block: NonNegativeInt
    cell: Cell
    records: tuple[RequestRecord, ...]
    client_cpu_share: float | None = None
    joules: float | None = None


class TurnRun(Frozen):
    """boot_s: from the start to the first token; 0 where the engine ran already. parity: only in some turns."""

    arm: Arm
    pair: NonNegativeInt
    endpoint: str
    model: str
    server: dict[str, str]
    words_per_token: NonNegativeFloat
    boot_s: NonNegativeFloat
    seconds: NonNegativeFloat
    clock: Clock
    runs: tuple[CellRun, ...]
    parity: tuple[ParitySample, ...] = ()
