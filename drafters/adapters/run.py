"""Runs an adapter: source folder in, new folder out, with what was done written beside it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from k25serve.drafters.adapters import eagle, kimi_k2, specforge, speculators, vllm
from k25serve.drafters.adapters.data import Stored
from k25serve.drafters.adapters.draft import Adapter, AdaptOptions, Draft, Job
from k25serve.drafters.adapters.keys import canonical_names, written_name
from k25serve.drafters.adapters.takes import refuse_ignored
from k25serve.drafters.adapters.write import (
    CONFIG,
    MODEL,
    PROVENANCE,
    new_folder,
    sha256,
    write_json,
    write_safetensors,
)
from k25serve.drafters.check.facts import derived_context
from k25serve.drafters.check.layout import MLA
from k25serve.drafters.checkpoint import AdaptError, Checkpoint, Target
from k25serve.drafters.checkpoint.json_file import read_object_if_there

ADAPTERS: dict[str, Adapter] = {
    module.ADAPTER.name: module.ADAPTER for module in (kimi_k2, speculators, specforge, eagle, vllm)
}
ROPE_KEYS = ("rope_theta", "rope_scaling", "rope_parameters")
# What tells targets apart and is small; the weights of a target are not read.
TARGET_FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "tiktoken.model")


@dataclass(frozen=True)
class Adapted:
    """An adapted drafter: its folder, what was done, and what the adapter checked itself, in sentences."""

    folder: Path
    adapter: str
    changes: tuple[str, ...]
    checks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {
            "adapter": self.adapter,
            "folder": str(self.folder),
            "changes": list(self.changes),
            "checks": list(self.checks),
        }


def adapt(
    name: str,
    drafter_dir: Path | str,
    out: Path | str,
    target_dir: Path | str | None = None,
    options: AdaptOptions | None = None,
) -> Adapted:
    """Rewrite a drafter for SGLang (or vLLM) into the new folder `out`.

    Raises AdaptError where the drafter is not what the adapter takes, or the options leave something unsaid;
    CheckpointError where a folder cannot be read. `out` is then left as it was.
    """
    if name not in ADAPTERS:
        raise AdaptError(f"adapter {name!r} is unknown; use one of {', '.join(ADAPTERS)}")
    adapter, options, out = ADAPTERS[name], options or AdaptOptions(), Path(out)
    refuse_ignored(name, options)
    source = Checkpoint(Path(drafter_dir))
    target = None if target_dir is None else Target(Path(target_dir))
    draft, trained = _read(adapter, source)
    job = Job(source, target, options)
    for step in adapter.steps:
        draft = step(draft, job)
    layout = adapter.layout or options.layout or "midlayer"
    if layout == "model-layers" and draft.config["architectures"] == [MLA]:
        raise AdaptError(f"--layout {layout}: SGLang loses these names for {MLA}; use layers or midlayer")
    with new_folder(out) as folder, ThreadPoolExecutor(max_workers=1) as pool:
        hashes = pool.submit(_hashes, source)
        write_safetensors(folder / MODEL, {written_name(key, layout): data for key, data in draft.tensors.items()})
        write_json(folder / CONFIG, draft.config)
        record = _record(adapter.name, source, target, replace(options, layout=layout), draft, trained)
        write_json(folder / PROVENANCE, {**record, "source_sha256": hashes.result()})
    return Adapted(out, adapter.name, draft.changes, adapter.checks)


def _read(adapter: Adapter, source: Checkpoint) -> tuple[Draft, dict[str, Any]]:
    """The drafter under canonical names, and its trainer's own values of what steps may change."""
    config, changes = adapter.read_config(source.config)
    names, left_out = canonical_names(config["architectures"][0], source.names, adapter.drops)
    if left_out:
        changes = (*changes, f"left out: {', '.join(left_out)}")
    for name in ("embed_tokens.weight", "t2d"):
        changes = (*changes, f"{name} {'kept' if name in names else 'is not stored'}")
    earlier = read_object_if_there(source.folder / PROVENANCE).get("trained")
    trained = {
        "rope": {key: config[key] for key in ROPE_KEYS if key in config},
        "max_position_embeddings": derived_context(config),
        **(earlier if isinstance(earlier, dict) else {}),
    }
    return Draft(config, {key: Stored(source.tensor(name)) for key, name in names.items()}, changes), trained


def _hashes(source: Checkpoint) -> dict[str, str]:
    return {path.name: sha256(path) for path in (source.folder / CONFIG, *source.files)}


def _record(
    adapter: str,
    source: Checkpoint,
    target: Target | None,
    options: AdaptOptions,
    draft: Draft,
    trained: dict[str, Any],
) -> dict[str, Any]:
    try:
        tool = version("k25serve")
    except PackageNotFoundError:
        tool = "not installed"
    files = (
        [] if target is None else [target.folder / name for name in TARGET_FILES if (target.folder / name).is_file()]
    )
    return {
        "tool": f"k25serve {tool}",
        "adapter": adapter,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": source.folder.resolve().name,
        "target": None if target is None else target.folder.resolve().name,
        "target_sha256": {path.name: sha256(path) for path in files},
        "options": asdict(options),
        "changes": list(draft.changes),
        "trained": trained,
    }
