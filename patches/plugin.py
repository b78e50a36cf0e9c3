"""SGLang plugin: the entry point `sglang.srt.plugins`, run by SGLang in every process before it does anything else.

On a CPU it installs the reference; in every launch of ours it puts the manifest's rows in place. SGLang logs a
plugin's exception and goes on without it; a process that is only half patched must not serve, so failure raises
SystemExit, which SGLang does not swallow.
"""

from importlib.metadata import version

from k25serve.patches.manifest.row import Device
from k25serve.patches.reference import stand_in
from k25serve.patches.reports import Reports

CPU_SGLANG_VERSIONS = ("0.5.23",)
"""SGLang releases whose internals the CPU reference was written for."""


def register() -> None:
    """Install the CPU reference where `launch.py` put in the stand-in, and the rows that are on in a launch of ours.

    In an SGLang that was started another way it does nothing.
    Raises SystemExit with one line: what failed, the SGLang version found, the supported ones and the remedy.
    """
    if stand_in.is_installed():
        _install_reference()
    reports = Reports.from_environment()
    if reports is not None:
        _put_in_place(reports, "cpu" if stand_in.is_installed() else "cuda")


def _put_in_place(reports: Reports, device: Device) -> None:
    from k25serve.patches import apply, verify

    process = apply.current_process()
    if process is not None:
        found = version("sglang")
        verify.report_applied(apply.apply(verify.chosen_rows(found, device), found, device, process), reports)


def _install_reference() -> None:
    found = version("sglang")
    try:
        if found not in CPU_SGLANG_VERSIONS:
            raise RuntimeError("unsupported SGLang version")
        _require_cpu_engine()
        from k25serve.patches.reference import install

        install.install()
    except Exception as error:
        raise SystemExit(_failure(error, found)) from error


def _require_cpu_engine() -> None:
    from sglang.srt.utils import is_cpu

    if not is_cpu():
        raise RuntimeError(
            "SGLang's is_cpu() is False: SGLANG_USE_CPU_ENGINE must be 1 with --device cpu, on x86 or arm64"
        )


def _failure(error: Exception, found: str) -> str:
    supported = ", ".join(CPU_SGLANG_VERSIONS)
    return (
        f"k25serve: the CPU reference could not be installed: {type(error).__name__}: {error}; "
        f"SGLang {found} found, supported on the CPU: {supported} (0.5.17 on GPUs only); "
        f"install sglang=={CPU_SGLANG_VERSIONS[-1]} or serve on a GPU"
    )
