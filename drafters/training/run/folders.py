"""Where things lie: in a run folder, and the models that a config names."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.tiny import DRAFTER, TARGET

PACKAGED = {"packaged:target": TARGET, "packaged:drafter": DRAFTER}
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))(/.*)?", re.ASCII)


def model_folder(field: str, value: str) -> Path:
    """The folder that `value` names: `packaged:...`, $NAME, ~, or a path. Raises TrainingError."""
    if value.startswith("packaged:"):
        if value not in PACKAGED:
            raise TrainingError(f"{field} {value}: nothing of that name; packaged are {' and '.join(PACKAGED)}")
        return PACKAGED[value]
    match = VARIABLE.fullmatch(value)
    if match:
        name = match[1] or match[2]
        found = os.environ.get(name)
        if not found:
            raise TrainingError(f"{field}: environment variable {name} is not set; export it with the model's folder")
        value = found + (match[3] or "")
    folder = Path(value).expanduser().absolute()
    if not (folder / "config.json").is_file():
        raise TrainingError(f"{field} {folder}: holds no config.json; give a model's folder")
    return folder


@dataclass(frozen=True)
class RunFolder:
    """RUN, or one part of it: it has the same form."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def vocab(self) -> Path:
        return self.path / "vocab"

    @property
    def hidden(self) -> Path:
        return self.path / "hidden"

    @property
    def fit(self) -> Path:
        return self.path / "fit"

    @property
    def drafter(self) -> Path:
        return self.path / "drafter"

    @property
    def parts(self) -> Path:
        return self.path / "parts"

    @property
    def gate(self) -> Path:
        return self.path / "gate.json"

    @property
    def config(self) -> Path:
        return self.path / "run.yaml"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def temporary(self) -> Path:
        return self.path / "tmp"
