"""The one console script, `k25serve`."""


def main() -> None:
    raise SystemExit(2)
