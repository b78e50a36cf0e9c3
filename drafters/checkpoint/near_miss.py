"""What somebody may have meant: the existing names that are most like one that is missing. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

NAMES_COMPARED = 5000  # difflib is quadratic in the names' lengths; a quantized K2.5 has 200,000 names


def near_misses(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of `names` like `name`: those with the same ending first, then those that are spelt alike."""
    everything = list(names)
    for tail in (".".join(name.split(".")[-2:]), ".".join(name.split(".")[-2:-1])):
        ending = [other for other in everything if tail and (other.endswith(tail) or f".{tail}." in f".{other}.")]
        if ending:
            return sorted(ending, key=lambda other: (abs(len(other) - len(name)), other))[:count]
    # Experts are nine tenths of the names and never what is meant.
    shorter = [other for other in everything if ".experts." not in other]
    return get_close_matches(name, shorter[:NAMES_COMPARED], n=count, cutoff=0.6)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; near: a, b, c`, or that nothing is like it."""
    found = near_misses(name, names)
    return f"; near: {', '.join(found)}" if found else "; no name is like it"
