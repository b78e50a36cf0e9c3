"""Stage `kernels`: the tests marked `gpu`, and the kernel benchmark. Needs torch and triton, no SGLang."""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.kernels.shapes import HEADS

ROOT = Path(__file__).parents[2]
TESTS = ("tests/patches/kernels", "tests/patches/hooks/test_gpu.py")
SUMMARY = re.compile(r"^=*\s*(\d+ passed.*) in [\d.]+s", re.MULTILINE)


def run(folder: Path, heads: int = HEADS) -> dict[str, Any]:
    """What pytest said, and the benchmark's table at so many heads of a rank.

    Raises ProofError with the end of the output where a test fails.
    """
    tests = _run(
        folder / "kernels-tests.log",
        [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *TESTS, "-p", "no:cacheprovider"],
    )
    summary = SUMMARY.search(tests)
    if summary is None:
        raise ProofError(f"pytest printed no summary: {tests[-500:]}")
    started = time.monotonic()
    table = _run(
        folder / "kernels-bench.log",
        [sys.executable, "-P", "-m", "k25serve.bench.kernels", "--out", str(folder), "--heads", str(heads)],
    )
    return {
        "tests": summary.group(1),
        "heads": heads,
        "benchmark_seconds": time.monotonic() - started,
        "table": table.splitlines(),
    }


def _run(log: Path, command: list[str]) -> str:
    with log.open("wb") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, check=False)
    text = log.read_text(errors="replace")
    if done.returncode:
        raise ProofError(f"{' '.join(command)} ended with {done.returncode}:\n{text[-3000:]}")
    return text


def markdown(data: dict[str, Any]) -> str:
    """The stage's report."""
    return "\n".join([f"Tests: {data['tests']}", "", "```", *data["table"], "```"])
