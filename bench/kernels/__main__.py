"""Command line of the kernel benchmark.

On a machine with a GPU, torch and triton (nothing else is needed there):

    python -P -m k25serve.bench.kernels --out DIR --sglang-kernels KERNELS

writes DIR/kernels.json. KERNELS is a folder with five files of SGLang's wheel:

    unzip -jd KERNELS sglang-0.5.23-*.whl 'sglang/kernels/ops/attention/*_attention.py' \\
        'sglang/kernels/ops/attention/verify_*.py' sglang/kernels/ops/attention/score_mod.py

In the checkout, `--finish DIR/kernels.json --out bench/results` makes the result file and prints its tables.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from k25serve.bench.kernels.shapes import HEADS
from k25serve.bench.kernels.table import lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or finish what was measured."""
    parser = argparse.ArgumentParser(
        prog="python -P -m k25serve.bench.kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the file goes")
    parser.add_argument("--sglang-kernels", type=Path, metavar="DIR", help="SGLang's kernels to compare with")
    parser.add_argument("--sglang-version", default="0.5.23", metavar="VERSION", help="the version that DIR is of")
    parser.add_argument("--heads", type=int, default=HEADS, metavar="N", help="attention heads of a rank; 8, TP=8's")
    parser.add_argument("--finish", type=Path, metavar="FILE", help="make the result file of a raw measurement")
    parser.add_argument("--notes", default="", metavar="TEXT", help="goes into the result file")
    options = parser.parse_args(arguments)
    if options.finish is not None:
        from k25serve.bench.kernels.record import finish

        print(finish(options.finish, options.out, options.notes))
        data = json.loads(options.finish.read_text(encoding="utf-8"))["data"]
    else:
        from k25serve.bench.kernels.contenders import contenders
        from k25serve.bench.kernels.measure import measure

        command = shlex.join(["python", "-P", "-m", "k25serve.bench.kernels", *(arguments or sys.argv[1:])])
        raw = measure(contenders(options.sglang_kernels, options.sglang_version), command, heads=options.heads)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "kernels.json").write_text(json.dumps(raw, indent=1), encoding="utf-8")
        data = raw["data"]
    print("\n".join(lines(data)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
