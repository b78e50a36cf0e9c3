"""The arms of the speed and trace stages: the engine on the made-up model without speculation, n-gram and EAGLE-3."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from k25serve.bench.gpu.booted import Booted, boot_bare
from k25serve.bench.gpu.rank_model import LAYERS, write_drafter, write_profile, write_target
from k25serve.bench.gpu.start import STOCK_VERIFY, Start

READY_S = 420.0
STEPS, DRAFTS = 3, 4
ACCEPT_LENGTH = 3
MODEL = "model"
ARMS = ("none", "eagle3", "eagle3-stock-verify", "ngram", "eagle3-fp8-kv")


@dataclass(frozen=True)
class Bench:
    """The made-up model for `ranks` ranks under `folder`, and how the engine is started on it."""

    folder: Path
    ranks: int
    profile: Path
    drafter: Path
    how: Start


def prepare(how: Start, ranks: int, eighths: int | None = None, layers: int = LAYERS) -> Bench:
    """Write model, drafter and profile under the folder's MODEL, which must not exist.

    eighths: of Kimi-K2.5's width; as many as ranks where it is None, so that a rank holds one.
    """
    folder = how.folder / MODEL
    eighths = ranks if eighths is None else eighths
    target = write_target(folder / "target", eighths, layers)
    return Bench(
        how.folder,
        ranks,
        write_profile(folder / "profile.yaml", target, ranks),
        write_drafter(folder / "drafter", eighths, layers),
        how,
    )


@contextmanager
def started(bench: Bench, arm: str, given_up: Event) -> Iterator[Booted]:
    """The engine of an arm. Under speculation every verify step is made to accept ACCEPT_LENGTH - 1 drafts.

    Acceptance is set by the engine's own switch (SGLANG_SIMULATE_ACC_LEN), since random weights accept nothing: what
    is measured is what steps cost. Raises ProofError where it doesn't get ready.
    """
    extra = ["--load-format", "dummy", *bench.how.engine_args]
    overrides = list(bench.how.overrides)
    env: dict[str, str] = {}
    if arm != "none":
        env |= {"SGLANG_SIMULATE_ACC_LEN": str(ACCEPT_LENGTH), "SGLANG_SIMULATE_ACC_TOKEN_MODE": "fixed"}
    if arm == "ngram":
        overrides += ["speculation.algorithm=ngram", f"speculation.num_draft_tokens={DRAFTS}"]
    elif arm != "none":
        overrides += [
            "speculation.algorithm=eagle3",
            f"speculation.drafter={bench.drafter}",
            f"speculation.num_steps={STEPS}",
            f"speculation.num_draft_tokens={DRAFTS}",
            "speculation.draft_attention_backend=triton",
        ]
        extra += ["--speculative-draft-load-format", "auto"]
    if arm == "eagle3-stock-verify":
        overrides += STOCK_VERIFY
    if arm == "eagle3-fp8-kv":
        overrides.append("engine.kv_cache_dtype=fp8_e4m3")
    overrides.append(f"engine.extra_args=[{', '.join(extra)}]")
    with boot_bare(
        arm, str(bench.profile), overrides, bench.folder, ready_s=READY_S, given_up=given_up, env=env
    ) as engine:
        yield engine
