"""Entry point of the console script: what must hold before the command line is even imported."""

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line. Ctrl-C while it is still importing ends it quietly."""
    # A daemon may be started with its standard streams closed: files opened later would take their numbers.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    try:
        from k25serve.server.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
