"""`python -P -m k25serve.bench.warm`: the K2 -> K2.5 story, small and whole, in one command."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from k25serve.bench.provenance import Recorder, write
from k25serve.bench.warm.options import Places, StoryOptions
from k25serve.bench.warm.story import tell
from k25serve.drafters.checkpoint.errors import DrafterError
from k25serve.drafters.tiny.arguments import OneLineParser, whole
from k25serve.server.errors import UserError
from k25serve.server.outputs import check_folder

PROGRAM = "python -P -m k25serve.bench.warm"
INTERRUPTED = 130
ABOUT = """\
A model's next release, and its drafter: the packaged target is trained a little further in another style; the
packaged drafter, which belongs to the older one, is adapted; then it is trained on for the new one (warm), beside one
from random weights on the same chats and as many passes (scratch). Each is served by the engine on the same held-out
prompts, and so is the packaged drafter on its own target. The same command goes on after a stop. No GPU needed.
"""
MEANINGS = {
    "own": "packaged drafter, its own target",
    "adapted": "packaged drafter adapted, new target",
    "warm": "the same trained on for the new target",
    "scratch": "from random weights, new target",
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Exits with one line, code 2, where an option is wrong."""
    own = StoryOptions()
    parser = OneLineParser(prog=PROGRAM, description=ABOUT, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="work; a begun one goes on")
    parser.add_argument("--results", type=Path, metavar="DIR", help="write a result under DIR/train-warm/")
    for name, meaning in (
        ("steps", "of training the target further"),
        ("chats", "that the drafters are trained on"),
        ("epochs", "passes over them"),
        ("prompts", "held out, asked of each"),
    ):
        parser.add_argument(
            f"--{name}", type=whole(1), default=getattr(own, name), help=f"{meaning}; default %(default)s"
        )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """0; 2 with one line on stderr; 130 after Ctrl-C."""
    given = parse(argv)
    # So that a run that is stopped leaves nothing running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    recorder = Recorder("train-warm", [*PROGRAM.split(), *argv])
    try:
        check_folder("--results", given.results)
        data = tell(StoryOptions(given.steps, given.chats, given.epochs, given.prompts), given.out, _say)
        print(table(data))
        if given.results is not None:
            inputs = [Places(given.out).target / "model.safetensors", Places(given.out).chats]
            _say(f"result: {write(recorder.finish(data, inputs), given.results)}")
    except (DrafterError, UserError, OSError) as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        _say("stopped; the same command goes on")
        return INTERRUPTED
    return 0


def table(data: dict[str, Any]) -> str:
    """Accept lengths by arm, and the differences with their 95 % intervals."""
    arms = [f"{name:8} {data['arms'][name]['all']['accept_length']:6.3f}  {MEANINGS[name]}" for name in data["arms"]]
    differences = [
        f"{name}: {found['middle']:+.3f} (95 % {found['low']:+.3f} to {found['high']:+.3f})"
        for name, found in data["differences"].items()
    ]
    return "\n".join([*arms, *differences])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
