"""Reading is bounded: a file is never in memory, whatever its size."""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from k25serve.bench.trace.synthetic import write_large

CHILD = """
import resource, sys
from pathlib import Path
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.synthetic import decode_steps, write
small = write(Path(sys.argv[1]) / "small.json", decode_steps(2, 2))
analyse([small])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = analyse(sorted(Path(sys.argv[1]).glob("large-*")))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, report.ranks[0].bytes_read)
"""


@pytest.mark.parametrize("packed", [False, True])
def test_memory_grows_with_kernels_not_with_bytes(tmp_path: Path, packed: bool) -> None:
    for path in write_large(tmp_path, ranks=3, size=25_000_000):
        if packed:
            with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=1) as target:
                shutil.copyfileobj(plain, target)
            path.unlink()
    ran = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, check=True)
    grown_kib, size = map(int, ran.stdout.split())
    assert size >= 25_000_000
    # 28,000 kernels a file at under 200 bytes, and one chunk; a parsed file would take ten times its size.
    assert grown_kib * 1024 < 25_000_000
