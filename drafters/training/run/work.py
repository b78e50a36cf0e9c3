"""What every step of a run is given."""

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.progress import Progress
from k25serve.drafters.training.run.engine import Engines
from k25serve.drafters.training.run.folders import RunFolder, model_folder
from k25serve.drafters.training.run.options import RunConfig


@dataclass
class Work:
    """say: one line to the user. engines: of this process alone; `held` keeps one up between steps."""

    config: RunConfig
    folder: RunFolder
    target: Path
    say: Callable[[str], None]
    progress: Callable[[], contextlib.AbstractContextManager[Progress]]
    engines: Engines
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    capturing: tuple[str, Path] | None = None

    @property
    def capture_options(self) -> CaptureOptions:
        """The capture's settings with the engine's layers."""
        return self.config.capture.model_copy(update={"layers": self.config.engine.layers})

    @property
    def fit_options(self) -> FitOptions:
        """The fit's settings, where `packaged:drafter` or a variable stands for the folder of a warm start too."""
        options = self.config.fit
        named = str(options.init.drafter)
        if options.init.drafter is None or not named.startswith(("packaged:", "$")):
            return options
        init = options.init.model_copy(update={"drafter": model_folder("fit.init.drafter", named)})
        return options.model_copy(update={"init": init})

    def capture_engine(self) -> tuple[str, Path]:
        """URL and staging of the capturing engine; boots it where none is up."""
        if self.capturing is None:
            self.capturing = self.held.enter_context(self.engines.capturing(self.config.engine, self.target))
        return self.capturing

    def stop_engine(self) -> None:
        """Where one is up."""
        self.capturing = None
        self.held.close()


def remove(path: Path) -> None:
    """A folder or a file, whatever is there; moved aside first, so that a kill leaves no half of it under its name."""
    if not path.exists() and not path.is_symlink():
        return
    doomed = path.with_name(f".{path.name}.removed")
    if doomed.exists():
        shutil.rmtree(doomed)
    path.replace(doomed)
    if doomed.is_dir() and not doomed.is_symlink():
        shutil.rmtree(doomed)
    else:
        doomed.unlink()
