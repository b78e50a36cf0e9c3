"""Captured hidden states as speculators' dataset, read strictly: what is wrong with a file stops training."""

from pathlib import Path
from typing import Any

import torch
from hs_connectors import FileTransfer
from safetensors import SafetensorError
from speculators.train.data import ArrowDataset

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import name_of

RECAPTURE = "delete it and run `k25serve drafter train capture` again"


class States(ArrowDataset):  # type: ignore[misc]
    """A split of a run folder. Row i is `hidden/<split>/hs_<i>.safetensors`.

    A row's loss_mask becomes what is trained on, place k [n] standing for the target's word after token k: the
    assistant writes token k and the next one, and the next one has a draft id. A word without one is left out, since
    nothing that the drafter could say there would be accepted. (The written word stands in for the target's first
    choice, and is it where the target wrote the answer greedily: finding it out otherwise takes the target's whole head
    at each place.) The first `margin` places are left out too: a draft that starts in the document packed before must
    not end in this one.
    """

    def __init__(self, run: Path, split: str, t2d: torch.Tensor, hidden_size: int, max_len: int, margin: int) -> None:
        self.folder = run / "hidden" / split
        super().__init__(
            max_len=max_len,
            datapath=str(run / "data" / split),
            transfer=FileTransfer(self.folder),
            on_missing="raise",
        )
        rows: Any = self.data
        self.labels: list[str] = list(rows.with_format(None)["label"])
        self.data: Any = rows.with_format(None, columns=["input_ids", "loss_mask"])
        self.hidden_size = hidden_size
        self._t2d, self._margin = t2d, margin
        self._finite = set[int]()  # rows whose states were looked through, which takes as long as reading them

    def captured(self, index: int) -> dict[str, torch.Tensor]:
        """token_ids [n], loss_mask [n] bool, hidden_states [n, 4, H], as they are in the file.

        Raises TrainingError where the file is damaged, is another row's, or holds a value that is no number.
        """
        path, row = self.folder / name_of(index), self.data[index]
        try:
            found = self.transfer.get_cached(index)
        except (SafetensorError, OSError) as error:
            raise TrainingError(f"{path}: cannot be read ({error}); {RECAPTURE}") from None
        if found is None:
            raise TrainingError(f"{path}: missing; run `k25serve drafter train capture` again")
        fault = _fault(found, row, self.hidden_size)
        if not fault and index not in self._finite and not bool(found["hidden_states"].isfinite().all()):
            fault = "hidden_states hold a value that is no number (NaN or infinite)"
        if fault:
            raise TrainingError(f"{path}: {fault}; {RECAPTURE}")
        self._finite.add(index)
        return {name: found[name] for name in ("token_ids", "loss_mask", "hidden_states")}

    def _get_raw_data(self, index: int) -> dict[str, Any]:
        found = self.captured(int(index))
        states, ids = found["hidden_states"], found["token_ids"]
        written = found["loss_mask"]
        wanted = torch.zeros_like(written)
        wanted[:-1] = written[:-1] & written[1:] & self._t2d[ids[1:]]
        wanted[: self._margin] = False
        return {
            "hidden_states": states[:, :-1].flatten(1),
            "input_ids": ids,
            "verifier_last_hidden_states": states[:, -1],
            "loss_mask": wanted,
            "written": written,
        }


def _fault(found: dict[str, torch.Tensor], row: dict[str, Any], hidden_size: int) -> str:
    missing = {"token_ids", "loss_mask", "hidden_states"} - set(found)
    if missing:
        return f"holds no {', '.join(sorted(missing))}"
    states, ids = found["hidden_states"], torch.tensor(row["input_ids"])
    if not torch.equal(found["token_ids"], ids):
        return "token_ids are not this row's of data"
    if not torch.equal(found["loss_mask"].bool(), torch.tensor(row["loss_mask"]).bool()):
        return "loss_mask is not this row's of data"
    if states.dim() != 3 or states.shape[0] != len(ids) or states.shape[2] != hidden_size:
        return f"hidden_states are {list(states.shape)}, [{len(ids)}, 4, {hidden_size}] belongs there"
    return ""
