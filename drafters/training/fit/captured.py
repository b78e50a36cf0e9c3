"""What the capture's sidecars say of RUN/hidden: which layers, of which target, and that every row is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.checkpoint import Target
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.files import name_of
from k25serve.drafters.training.capture.shards import Sidecar, bad_files
from k25serve.drafters.training.fit.options import FitOptions

RECAPTURE = "run `k25serve drafter train capture` to its end"


@dataclass(frozen=True)
class Captured:
    """aux_layers: physical, the states leave them, counted from 0; sglang: versions of the engines."""

    aux_layers: tuple[int, ...]
    sglang: tuple[str, ...]


def check_captured(run: Path, rows: Mapping[str, int], target: Target, options: FitOptions) -> Captured:
    """rows: how many each split has. Raises TrainingError for the first sidecar or file that does not fit."""
    kinds, versions = dict[tuple[int, ...], Path](), set[str]()
    for split, count in rows.items():
        folder, expected = run / "hidden" / split, 0
        for path in sorted(folder.glob("shard-*.json"), key=_number):
            sidecar = Sidecar.read(path)
            if sidecar is None:
                raise TrainingError(f"{path}: cannot be read; {RECAPTURE}")
            if sidecar.start != expected:
                raise TrainingError(f"{folder}: rows {expected} to {sidecar.start} are in no sealed shard; {RECAPTURE}")
            expected = sidecar.stop
            _check(sidecar, path, target)
            bad = bad_files(sidecar, folder, options.verify, {})
            if bad:
                raise TrainingError(
                    f"{folder / name_of(min(bad))}: is not what the capture sealed ({len(bad)} such in {path.name}); "
                    f"{RECAPTURE}, it mends them"
                )
            kinds.setdefault(sidecar.layers, path)
            versions.add(sidecar.sglang)
        if expected != count:
            raise TrainingError(f"{folder}: {expected} of {count} rows are sealed; {RECAPTURE}")
    if len(kinds) > 1:
        (first, one), (second, other), *_ = kinds.items()
        raise TrainingError(
            f"{other}: of layers {list(second)}, but {one} of {list(first)}; remove one of them, and {RECAPTURE}"
        )
    return Captured(next(iter(kinds)), tuple(sorted(versions)))


def _check(sidecar: Sidecar, path: Path, target: Target) -> None:
    last, width = target.size("num_hidden_layers") - 1, target.size("hidden_size")
    if sidecar.target_config_sha256 != sha256(target.folder / "config.json"):
        raise TrainingError(
            f"{path}: states of another target than {target.folder} (config.json differs); correct --target, or "
            "capture them anew"
        )
    if (sidecar.last_layer, sidecar.hidden_size) != (last, width):
        raise TrainingError(
            f"{path}: last layer {sidecar.last_layer}, width {sidecar.hidden_size}; the target's are {last} and "
            f"{width}; capture them anew"
        )
    layers = sidecar.layers
    if not layers or list(layers) != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] <= last:
        raise TrainingError(
            f"{path}: layers {list(layers)}, which must ascend and lie in 0 to {last}; capture them anew"
        )


def _number(path: Path) -> int:
    number = path.stem.removeprefix("shard-")
    return int(number) if number.isdecimal() else -1
