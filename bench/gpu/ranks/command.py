"""`k25serve` as a command of a step: its output in a log, its result file read back."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from k25serve.bench import provenance
from k25serve.bench.gpu.booted import K25SERVE, ProofError


def result_of(arguments: Sequence[str], folder: Path, kind: str) -> provenance.Result:
    """Run `k25serve ARGUMENTS --results FOLDER`; the one result of `kind`, whatever the exit code says of it.

    Raises ProofError with the end of the output where it left none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there = set((folder / kind).glob("*.json"))
    command = [*K25SERVE, *arguments, "--results", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (folder / f"{kind}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    new = set((folder / kind).glob("*.json")) - there
    if len(new) != 1:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ProofError(f"k25serve {' '.join(arguments)}: ended with {done.returncode}, without a result:\n{end}")
    return provenance.read(new.pop())
