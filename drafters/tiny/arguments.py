"""Command-line arguments whose faults are one line."""

import argparse
from collections.abc import Callable
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Exits with code 2 where an argument is wrong."""

    def error(self, message: str) -> NoReturn:
        """One line, without the usage."""
        self.exit(2, f"{self.prog}: error: {message}; --help says what it takes\n")


def whole(least: int) -> Callable[[str], int]:
    """For `type=`: a whole number from `least`."""

    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return number
