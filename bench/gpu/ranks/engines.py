"""The packaged model, widened to 64 heads, on one rank or on all: `k25serve serve` with EAGLE-3."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from k25serve.bench.gpu.booted import Booted, boot
from k25serve.bench.gpu.parity import WITHOUT_SPECULATION
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.gpu.wide_model import write_wide

FOLDER = "wide"
READY_S = 600.0


def wide(setting: Setting) -> tuple[Path, Path]:
    """Target and drafter, written once a folder."""
    folder = setting.how.folder / FOLDER
    if folder.exists():
        return folder / "target", folder / "drafter"
    return write_wide(folder)


@contextmanager
def serving(
    setting: Setting,
    name: str,
    ranks: int,
    *,
    drafts: bool = True,
    at: Sequence[int] = (),
    given_up: Event | None = None,
) -> Iterator[Booted]:
    """The stack over `ranks` ranks; exact on the CPU (fp32), as served on GPUs (bf16). Raises ProofError."""
    target, drafter = wide(setting)
    overrides = [
        *(one for one in setting.how.overrides if not one.startswith("engine.tp=")),
        f"target={target}",
        f"speculation.drafter={drafter}",
        f"engine.tp={ranks}",
        f"engine.extra_args=[{', '.join(setting.extra_args)}]",
        *(("engine.dtype=float32",) if setting.on_cpu else ()),
        *(() if drafts else WITHOUT_SPECULATION),
    ]
    with boot(
        name,
        setting.profile,
        overrides,
        setting.how.folder,
        ready_s=READY_S,
        given_up=given_up or Event(),
        at=at,
    ) as stack:
        yield stack
