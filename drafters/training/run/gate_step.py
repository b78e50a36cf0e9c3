"""The gate: the result, and a drafter to compare it with, served one after the other on held-out prompts."""

import json
from pathlib import Path
from typing import Any

from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.run.digests import digest, of_files, of_model
from k25serve.drafters.training.run.fit_step import drafter_files
from k25serve.drafters.training.run.folders import model_folder
from k25serve.drafters.training.run.held_out import measure, read_prompts
from k25serve.drafters.training.run.options import GateOptions
from k25serve.drafters.training.run.step import Step
from k25serve.drafters.training.run.verdict import judge
from k25serve.drafters.training.run.work import Work, remove


def gate_step(work: Work, options: GateOptions) -> Step:
    return Step(
        "gate",
        ("data", "export"),
        lambda: _asked(options),
        lambda: _gate(work, options),
        lambda: of_files([work.folder.gate]),
        lambda: remove(work.folder.gate),
    )


def _asked(options: GateOptions) -> Any:
    baseline = None if options.baseline is None else model_folder("gate.baseline", options.baseline)
    return {
        "options": options.model_dump(mode="json"),
        "baseline": None if baseline is None else digest(of_model(baseline)),
    }


def _gate(work: Work, options: GateOptions) -> dict[str, Any]:
    work.stop_engine()
    prompts = read_prompts(work.folder.data, options.prompts)
    arms = {"trained": work.folder.drafter}
    if options.baseline is not None:
        arms["baseline"] = model_folder("gate.baseline", options.baseline)
    rows = {name: _arm(work, options, name, drafter, prompts) for name, drafter in arms.items()}
    found = judge(options, rows["trained"], rows.get("baseline"))
    write_whole(work.folder.gate, (json.dumps(found | {"rows": rows}, indent=1) + "\n").encode())
    for name in arms:
        remove(_kept(work, name))
    return {key: value for key, value in found.items() if key != "rows"}


def _arm(work: Work, options: GateOptions, name: str, drafter: Path, prompts: list[Any]) -> list[dict[str, Any]]:
    """Kept once measured, so that a kill between the arms costs one of them."""
    what = digest(
        [of_files(drafter_files(drafter)), options.model_dump(mode="json"), [prompt.input_ids for prompt in prompts]]
    )
    kept = _kept(work, name)
    if kept.is_file():
        stored = json.loads(kept.read_bytes())
        if stored["what"] == what:
            return list(stored["rows"])
    with work.engines.serving(f"gate-{name}", options, work.target, drafter) as url:
        rows = measure(url, prompts, options.max_tokens)
    write_whole(kept, json.dumps({"what": what, "rows": rows}).encode())
    return rows


def _kept(work: Work, name: str) -> Path:
    return work.folder.temporary / f"gate-{name}.json"
