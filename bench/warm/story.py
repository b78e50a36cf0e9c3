"""The steps of the story, each kept once done, and what came out."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from k25serve.bench.warm.chats import write_chats
from k25serve.bench.warm.options import SCRATCH, WARM, Places, StoryOptions, gate_options, scratch_sets, warm_sets
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.checkpoint.json_file import read_object
from k25serve.drafters.tiny import DRAFTER, TARGET
from k25serve.drafters.training.capture.files import write_whole
from k25serve.drafters.training.run.engine import Engines
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.held_out import measure, read_prompts
from k25serve.drafters.training.run.verdict import by_label, interval

PYTHON = (sys.executable, "-P", "-m")
K25SERVE = (*PYTHON, "k25serve.server.main")
FURTHER = (*PYTHON, "k25serve.drafters.tiny.further")
STOP_S = 240.0  # a training run ends its engine first


def tell(options: StoryOptions, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Do what is not done yet; returns the result's data.

    Raises TrainingError where a step fails, or where `out` was begun with other options.
    """
    places = Places(out.absolute())
    _begin(options, places)
    if not places.target.is_dir():
        say("1/5 the target, trained further")
        _do([*FURTHER, "--out", str(places.target), "--steps", str(options.steps)])
    if not places.chats.is_file():
        write_chats(places.chats, options.chats)
    if not places.adapted.is_dir():
        say("2/5 its older release's drafter, adapted")
        _do(_adapt(places))
    say("3/5 warm: the adapted drafter trained on")
    _do(_train(WARM, warm_sets(options, places), places.warm))
    say("4/5 scratch: the same from random weights")
    _do(_train(SCRATCH, scratch_sets(options, places), places.scratch))
    say("5/5 for scale: the packaged drafter on its own target, the same questions")
    return _data(options, places, _own(options, places, say))


def _begin(options: StoryOptions, places: Places) -> None:
    asked = asdict(options)
    if places.options.is_file():
        before = read_object(places.options)
        if before != asked:
            raise TrainingError(f"--out {places.out}: begun with {before}, not {asked}; give those, or another --out")
        return
    if places.out.exists() and any(places.out.iterdir()):
        raise TrainingError(f"--out {places.out}: is not empty, and not begun by this command; give another")
    places.out.mkdir(parents=True, exist_ok=True)
    write_whole(places.options, json.dumps(asked).encode())


def _adapt(places: Places) -> list[str]:
    folders = ["--drafter", str(DRAFTER), "--target", str(places.target), "--out", str(places.adapted)]
    return [*K25SERVE, "drafter", "adapt", "kimi_k2", *folders]


def _train(config: str, sets: Sequence[str], out: Path) -> list[str]:
    words = [word for one in sets for word in ("--set", one)]
    return [*K25SERVE, "drafter", "train", "run", "--config", config, "--out", str(out), *words]


def _do(command: Sequence[str]) -> None:
    """In the foreground. A stop of this process stops it in order."""
    process = subprocess.Popen(command)
    try:
        code = process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
        raise
    if code:
        raise TrainingError(f"exit code {code} of: {' '.join(command[3:])}; mend it, then the same command goes on")


def _own(options: StoryOptions, places: Places, say: Callable[[str], None]) -> list[dict[str, Any]]:
    folder = RunFolder(places.own)
    if folder.gate.is_file():
        return list(read_object(folder.gate)["rows"])
    folder.temporary.mkdir(parents=True, exist_ok=True)
    gate, prompts = gate_options(options, places), read_prompts(RunFolder(places.warm).data, options.prompts)
    engines = Engines(folder, say)
    engines.end_left_over()
    with engines.serving("own", gate, TARGET, DRAFTER) as url:
        rows = measure(url, prompts, gate.max_tokens)
    write_whole(folder.gate, json.dumps({"rows": rows}).encode())
    return rows


def _data(options: StoryOptions, places: Places, own: list[dict[str, Any]]) -> dict[str, Any]:
    target = read_object(places.target / "provenance.json")
    warm, scratch = (read_object(RunFolder(path).gate)["rows"] for path in (places.warm, places.scratch))
    arms = {"own": own, "adapted": warm["baseline"], "warm": warm["trained"], "scratch": scratch["trained"]}
    pairs = (("warm", "adapted"), ("scratch", "adapted"), ("warm", "scratch"))
    return {
        "options": asdict(options),
        "target": {key: target[key] for key in ("command", "texts", "training", "held_out_loss")},
        "arms": {name: by_label(rows) for name, rows in arms.items()},
        "differences": {
            f"{one} - {other}": dict(zip(("low", "middle", "high"), interval(arms[one], arms[other]), strict=True))
            for one, other in pairs
        },
        "fits": {path.name: _fit(path) for path in (places.warm, places.scratch)},
        "rows": arms,
    }


def _fit(path: Path) -> dict[str, Any]:
    found = read_object(RunFolder(path).fit / "result.json")
    return {key: found[key] for key in ("step", "tokens", "seconds", "held_out")}
