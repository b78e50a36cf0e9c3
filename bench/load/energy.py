"""GPU energy by NVML's own counter."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """`joules` over the block, all GPUs of this machine together; None where NVML or its counter is missing."""

    joules: float | None = None


@contextlib.contextmanager
def energy(local: bool) -> Iterator[Meter]:
    """Measures the block. local: the engine runs on this machine; otherwise its GPUs can't be read from here."""
    meter = Meter()
    before = _millijoules() if local else None
    yield meter
    after = _millijoules() if before is not None else None
    if before is not None and after is not None:
        meter.joules = (after - before) / 1000


def _millijoules() -> int | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount()))
        return sum(int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) for handle in handles) or None
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
