"""Captured states onto disk, in a thread of their own: the scheduler only hands over."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from k25serve.patches import fault

BATCHES_WAITING = 4  # each holds a batch's states in host memory; a full queue makes the scheduler wait
REFUSALS_KEPT = 256


@dataclass(frozen=True)
class Part:
    """Tokens start..end of a batch are those of the request `rid`."""

    rid: str
    start: int
    end: int


@dataclass(frozen=True)
class Batch:
    """One prefill batch in host memory, once `arrived` returns.

    token_ids: int64 [tokens]. aux: bf16 [tokens, layers * hidden]. last: bf16 [tokens, hidden].
    """

    parts: Sequence[Part]
    token_ids: torch.Tensor
    aux: torch.Tensor
    last: torch.Tensor
    arrived: Callable[[], None]


class StateWriter:
    """Writes `<directory>/<rid>.safetensors`, each whole or not at all.

    metadata goes into every file's header. What can't be written is kept in `refused`, by rid, with the reason.
    """

    def __init__(self, directory: Path, metadata: dict[str, str]) -> None:
        self._directory, self._metadata = directory, metadata
        self._batches: queue.Queue[Batch] = queue.Queue(BATCHES_WAITING)
        self._refused: deque[tuple[str, str]] = deque(maxlen=REFUSALS_KEPT)
        self.written = 0
        self._thread = threading.Thread(target=self._run, name="k25serve-capture", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Hand a batch over; waits where `BATCHES_WAITING` batches are still to be written."""
        self._batches.put(batch)

    def refuse(self, rids: Sequence[str], reason: str) -> None:
        """Note why there will be no files for these requests."""
        self._refused.extend((rid, reason) for rid in rids)

    def report(self) -> dict[str, Any]:
        """Files written so far, and the latest refusals."""
        return {"written": self.written, "refused": dict(self._refused)}

    def wait(self) -> None:
        """Until everything handed over is written."""
        self._batches.join()

    def _run(self) -> None:
        while True:
            batch = self._batches.get()
            try:
                batch.arrived()
                for part in batch.parts:
                    self._write(part, batch)
            except (OSError, SafetensorError) as error:  # such as a full disk: the client is told, the engine goes on
                self.refuse([part.rid for part in batch.parts], f"{type(error).__name__}: {error}")
            except Exception as error:
                raise fault.stop(f"patch capture_states: its writer failed: {fault.of(error)}", error) from error
            finally:
                self._batches.task_done()

    def _write(self, part: Part, batch: Batch) -> None:
        rows, hidden = slice(part.start, part.end), batch.last.shape[-1]
        aux = batch.aux[rows].view(part.end - part.start, -1, hidden)
        tensors = {
            "token_ids": batch.token_ids[rows].clone(),
            "hidden_states": torch.cat([aux, batch.last[rows, None]], dim=1),
        }
        draft = self._directory / f".{part.rid}.part"
        try:
            save_file(tensors, draft, self._metadata)
            draft.rename(self._directory / f"{part.rid}.safetensors")
        finally:
            draft.unlink(missing_ok=True)
        self.written += 1


def to_host(tensors: Sequence[torch.Tensor], dtypes: Sequence[torch.dtype]) -> tuple[list[torch.Tensor], Any]:
    """Copies in host memory, and a function that returns once they have arrived.

    On a GPU the copies run after what is queued so far, and nothing waits for them here.
    """
    on_gpu = tensors[0].is_cuda
    copies = []
    for tensor, dtype in zip(tensors, dtypes, strict=True):
        host = torch.empty(tensor.shape, dtype=dtype, pin_memory=on_gpu)
        copies.append(host.copy_(tensor, non_blocking=on_gpu))
    if not on_gpu:
        return copies, _already
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copies, event.synchronize


def _already() -> None:
    """On the CPU a copy is done when it returns."""
