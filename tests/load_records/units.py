"""A systemctl for tests: a shell script over a folder of unit states."""

import shlex
from pathlib import Path

SCRIPT = """#!/bin/sh
folder={folder}
for last; do :; done
state="$folder/$last.state"
case "$1" in
  show) if [ -e "$state" ]; then echo LoadState=loaded; echo ActiveState="$(cat "$state")"
        else echo LoadState=not-found; echo ActiveState=inactive; fi; exit 0;;
esac
echo "$@" >> "$folder/log"
if [ "$(cat "$state")" = failing ]; then echo "Job for $last failed."; exit 1; fi
case "$1" in
  start) echo active > "$state"; {on_start};;
  stop) echo inactive > "$state"; {on_stop};;
esac
"""


def make_systemctl(folder: Path, on_start: str = ":", on_stop: str = ":", **units: str) -> Path:
    """The script's path. on_start, on_stop: shell commands; the unit's name is $last."""
    for name, state in units.items():
        (folder / f"{name}.state").write_text(f"{state}\n")
    path = folder / "systemctl"
    path.write_text(SCRIPT.format(folder=shlex.quote(str(folder)), on_start=on_start, on_stop=on_stop))
    path.chmod(0o755)
    return path
