"""Start of an engine on every device: `python -P -m k25serve.patches.launch <SGLang's server arguments>`.

With `--device cpu` it first puts in the stand-in for `sgl_kernel`. That must happen at the top level of the main
module: multiprocessing's spawn runs the main module again, as `__mp_main__`, in every child before it unpickles the
child's function, and unpickling already imports SGLang's scheduler, long before plugins are loaded. On other devices
this module only loads the plugins and hands over to SGLang.
"""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k25serve.patches.reports import Reports

CPU_REFERENCE_ENV = "K25SERVE_CPU_REFERENCE"
"""Set to 1 by the parent for its children, whatever it was before; never read by the parent."""

_NO_NCCL = "/nonexistent/libnccl.so"
_GC_THRESHOLD = (50_000, 20, 20)
"""Importing SGLang makes some 6,700 modules; Python's defaults spend a fifth of that time on garbage collection."""


def option(argv: Sequence[str], *names: str) -> str | None:
    """Value of the last of the options `names` in argv, as `--name value` or `--name=value`; None if absent."""
    found = None
    for position, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if name not in names:
            continue
        if equals:
            found = value
        elif position + 1 < len(argv):
            found = argv[position + 1]
    return found


def is_cpu(argv: Sequence[str]) -> bool:
    """Whether the arguments choose the CPU."""
    return option(argv, "--device") == "cpu"


def cpu_environment(argv: Sequence[str], environment: Mapping[str, str], cpus: Sequence[int]) -> dict[str, str]:
    """Variables that SGLang needs on the CPU, less those that the caller set. `cpus`: the CPU ids we may run on.

    One OpenMP thread a rank: the models meant for the reference are tiny, and threads that wait for each other on
    shared cores make them more than ten times slower. No torch.compile: it gains nothing here, costs seconds at the
    first request and needs a C++ compiler. With several ranks each gets its share of the CPUs (SGLang wants a NUMA
    node a rank otherwise), and NCCL is hidden: a CUDA build of torch brings it along, and SGLang's PyNccl then asks
    for a CUDA device.
    """
    wanted = {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1"}
    ranks = 1
    for names in (("--tp", "--tp-size", "--tensor-parallel-size"), ("--dp", "--dp-size"), ("--pp", "--pp-size")):
        ranks *= int(option(argv, *names) or 1)
    if ranks > 1:
        wanted["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(_share(cpus, rank, ranks) for rank in range(ranks))
        wanted["SGLANG_NCCL_SO_PATH"] = _NO_NCCL
    return {name: value for name, value in wanted.items() if name not in environment}


def _share(cpus: Sequence[int], rank: int, ranks: int) -> str:
    if len(cpus) < ranks:
        return str(cpus[rank % len(cpus)])
    first, end = rank * len(cpus) // ranks, (rank + 1) * len(cpus) // ranks
    return ",".join(str(cpu) for cpu in cpus[first:end])


def prepare_parent(argv: Sequence[str]) -> None:
    """Decide for this process and its children; on the CPU set the environment and install the stand-in."""
    os.environ.pop(CPU_REFERENCE_ENV, None)
    if not is_cpu(argv):
        return
    os.environ[CPU_REFERENCE_ENV] = "1"
    os.environ.update(cpu_environment(argv, os.environ, sorted(os.sched_getaffinity(0))))
    print(
        "k25serve: SGLang runs on the CPU through k25serve's torch reference: for demos and tests, not for serving",
        file=sys.stderr,
        flush=True,
    )
    _install_stand_in()


def prepare_child() -> None:
    """In a spawned child: install the stand-in if the parent did."""
    if os.environ.get(CPU_REFERENCE_ENV) == "1":
        _install_stand_in()


def _install_stand_in() -> None:
    gc.set_threshold(*_GC_THRESHOLD)
    from k25serve.patches.reference import stand_in

    stand_in.install()


def serve(argv: Sequence[str]) -> None:
    """Check the patches, load the plugins, and run SGLang's server until it ends; its processes are killed with it.

    Raises SystemExit if a patch or the CPU reference is not in place, or an argument is outside the reference.
    """
    from k25serve.patches import verify
    from k25serve.patches.reports import Reports

    with Reports.opened() as reports:
        verify.check_source("cpu" if is_cpu(argv) else "cuda")
        try:
            _run(argv, reports)
        except Exception:
            # What SGLang then says is that a process has ended; why is in that process's own words.
            for line in reports.faults():
                raise SystemExit(line) from None
            raise


def _run(argv: Sequence[str], reports: "Reports") -> None:
    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    from k25serve.patches import verify

    load_plugins()
    verify.check_applied(reports)
    server_args = prepare_server_args(list(argv))
    if server_args.device == "cpu" or is_cpu(argv):
        _check_reference(server_args)
    try:
        run_server(server_args)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


def _check_reference(server_args: object) -> None:
    from k25serve.patches.reference import stand_in

    if not stand_in.is_installed():
        raise SystemExit(
            "k25serve: device='cpu' must be given as --device cpu on the command line, not in a config file"
        )
    from k25serve.patches.reference import arguments, install

    try:
        install.verify()
    except RuntimeError as error:
        raise SystemExit(
            f"k25serve: the plugin 'k25serve' did not run: {error}; check SGLANG_PLUGINS and that k25serve is installed"
        ) from error
    try:
        arguments.check(server_args)
    except ValueError as error:
        raise SystemExit(f"k25serve: {error}") from error


if __name__ == "__mp_main__":
    prepare_child()
elif __name__ == "__main__":
    prepare_parent(sys.argv[1:])
    serve(sys.argv[1:])
