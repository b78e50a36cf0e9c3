"""Command line of `k25serve patches compile`; also `python -P -m k25serve.patches.compile`. Exit status 1: it fails."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from k25serve.patches.compile.baseline import Baseline
from k25serve.patches.compile.gate import Report, run
from k25serve.patches.compile.report import as_json, show
from k25serve.patches.compile.sglang_kernels import SGLangKernels, installed_folder, load
from k25serve.patches.kernels.mla_verify.tiles import SHARED_LIMIT
from k25serve.server.errors import UserError
from k25serve.server.outputs import check_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, compile, report."""
    parser = argparse.ArgumentParser(
        prog="k25serve patches compile",
        description="Compile every kernel variant for a GPU that need not be there; fail over its limits.",
    )
    parser.add_argument("--arch", choices=sorted(SHARED_LIMIT), required=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there too")
    parser.add_argument("--ours-only", action="store_true", help="leave SGLang's kernels out; needs no torch")
    parser.add_argument("--sglang-kernels", type=Path, metavar="DIR", help="SGLang's kernels/ops/attention folder")
    parser.add_argument("--sglang-version", metavar="VERSION", help="the version that folder is of")
    parser.add_argument("--record", action="store_true", help="record the baseline instead of comparing with it")
    options = parser.parse_args(arguments)
    if (options.sglang_kernels is None) != (options.sglang_version is None):
        parser.error("--sglang-kernels and --sglang-version go together")
    try:
        check_file("--json", options.json)
    except UserError as error:  # now, not after minutes
        parser.error(str(error))
    sglang = None if options.ours_only else _sglang(options.arch, options.sglang_kernels, options.sglang_version)
    baseline = Baseline.read()
    report = run(options.arch, Baseline() if options.record else baseline, sglang)
    show(report, Console(width=140))
    if options.json is not None:
        options.json.write_text(as_json(report), encoding="utf-8")
    if options.record:
        _record(baseline, report)
        return 0
    return 0 if report.passed else 1


def _sglang(arch: str, folder: Path | None, name: str | None) -> SGLangKernels:
    number = int(arch.removeprefix("sm_"))
    return load(folder or installed_folder(), name or version("sglang"), (number // 10, number % 10))


def _record(baseline: Baseline, report: Report) -> None:
    alternates = {row.name: row.resources for row in report.rows if not row.default}
    baseline.record(report.triton, report.arch, alternates)
    baseline.write()


if __name__ == "__main__":
    sys.exit(main())
