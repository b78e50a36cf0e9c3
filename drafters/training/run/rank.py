"""One of several fitting processes: torch.distributed.run ... -m k25serve.drafters.training.run.rank ARGUMENTS.

ARGUMENTS: RUN TARGET CONFIG OUT. All are positional, since torch.distributed.run takes `--run` for one of its own.
"""

import sys
from pathlib import Path

from k25serve.drafters.checkpoint.errors import DrafterError
from k25serve.drafters.training.fit.config_file import load_options
from k25serve.drafters.training.progress import Shown

ERROR = "k25serve: error: "


def main(run: str, target: str, config: str, out: str) -> int:
    """Exit code: 2 for what the user can mend, told in one line."""
    from k25serve.drafters.training.fit.run import fit

    try:
        with Shown() as progress:
            fit(load_options(config), Path(run), Path(target), Path(out), progress)
    except DrafterError as error:
        print(f"{ERROR}{error}", file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
