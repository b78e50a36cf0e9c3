import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from k25serve.patches import launch


@pytest.mark.parametrize(
    ("argv", "cpu"),
    [
        ([], False),
        (["--device", "cpu"], True),
        (["--device=cpu", "--tp", "2"], True),
        (["--device", "cuda"], False),
        (["--device", "cpu", "--device=cuda"], False),
        (["--device"], False),
        (["--served-model-name", "cpu"], False),
    ],
)
def test_the_device_comes_from_the_arguments(argv, cpu):
    assert launch.is_cpu(argv) is cpu


@pytest.mark.parametrize(
    ("argv", "cpus", "bind"),
    [
        ([], [0, 1], None),
        (["--tp", "1"], [0, 1], None),
        (["--tp", "2"], [0, 1], "0|1"),
        (["--tp-size=2"], [4, 5, 6, 7, 9], "4,5|6,7,9"),
        (["--tensor-parallel-size", "2", "--dp=2"], [3], "3|3|3|3"),
    ],
)
def test_environment_for_one_and_several_ranks(argv, cpus, bind):
    environment = launch.cpu_environment(argv, {}, cpus)
    assert environment.pop("SGLANG_USE_CPU_ENGINE") == "1"
    assert environment.pop("OMP_NUM_THREADS") == "1"
    assert environment.pop("TORCH_COMPILE_DISABLE") == "1"
    assert environment.pop("SGLANG_CPU_OMP_THREADS_BIND", None) == bind
    assert not os.path.exists(environment.pop("SGLANG_NCCL_SO_PATH", "/nonexistent"))
    assert not environment


def test_what_the_caller_set_stays():
    caller = {"OMP_NUM_THREADS": "4", "SGLANG_CPU_OMP_THREADS_BIND": "8|9", "SGLANG_NCCL_SO_PATH": "/x"}
    added = launch.cpu_environment(["--tp", "2"], caller, [0, 1])
    assert added == {"SGLANG_USE_CPU_ENGINE": "1", "TORCH_COMPILE_DISABLE": "1"}


def python(code, **environment):
    """Run code in a fresh interpreter; variables of the reference come from `environment` only."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SGLANG_", "K25SERVE_", "OMP_"))}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, env=clean | environment
    )


AS_MODULE = "import runpy, sys\nrunpy.run_module('k25serve.patches.launch', run_name={name!r})\n"
REPORT = "print('sgl_kernel' in sys.modules, 'sglang' in sys.modules)\n"


@pytest.mark.parametrize(("flag", "installed"), [({}, False), ({"K25SERVE_CPU_REFERENCE": "1"}, True)])
def test_a_spawned_child_follows_its_parent(flag, installed):
    done = python(AS_MODULE.format(name="__mp_main__") + REPORT, **flag)
    assert done.stdout.split() == [str(installed), "False"], done.stderr


def test_importing_the_module_does_nothing():
    done = python("import sys, k25serve.patches.launch\n" + REPORT, K25SERVE_CPU_REFERENCE="1")
    assert done.stdout.split() == ["False", "False"], done.stderr


@pytest.mark.parametrize("argv", [["--device", "cuda"], []])
def test_other_devices_are_left_alone_whatever_the_environment_says(argv):
    code = (
        "import os, sys\nfrom k25serve.patches import launch\n"
        f"before = dict(os.environ)\nlaunch.prepare_parent({argv!r})\n"
        "print(sorted(set(before.items()) ^ set(os.environ.items())))\n" + REPORT
    )
    done = python(code, K25SERVE_CPU_REFERENCE="1")
    assert done.stdout.splitlines() == ["[('K25SERVE_CPU_REFERENCE', '1')]", "False False"], done.stderr
    assert done.stderr == ""


MAIN = (
    "import runpy, sys\nsys.argv[1:] = {argv!r}\n"
    "try: runpy.run_module('k25serve.patches.launch', run_name='__main__')\n"
)
AFTER = "except SystemExit as stop: print('exit', stop.code)\n" + REPORT


def test_main_on_a_gpu_hands_over_to_sglang_without_the_stand_in():
    done = python(MAIN.format(argv=["--device", "cuda", "--help"]) + AFTER)
    assert done.stdout.splitlines()[-2:] == ["exit 0", "False True"], done.stderr
    assert "--model-path" in done.stdout
    assert "k25serve: " not in done.stderr


def test_main_on_the_cpu_says_so_installs_and_stops_if_the_plugin_did_not_run():
    """That it hands over else is what each engine of tests/e2e needs."""
    done = python(MAIN.format(argv=["--device", "cpu", "--model-path", "x"]) + AFTER, SGLANG_PLUGINS="none")
    line, loaded = done.stdout.splitlines()[-2:]
    assert line.startswith("exit "), done.stderr
    assert "the plugin 'k25serve' did not run" in line
    assert "check SGLANG_PLUGINS" in line
    assert loaded == "True True"
    assert done.stderr.splitlines()[0].startswith("k25serve: SGLang runs on the CPU")
    assert "for demos and tests" in done.stderr


@pytest.mark.usefixtures("sglang_on_cpu")
def test_arguments_outside_the_reference_stop_the_start():
    from k25serve.patches.reference import install

    install.install()
    with pytest.raises(SystemExit, match="k25serve: device='cuda' is not in the CPU reference"):
        launch._check_reference(SimpleNamespace(device="cuda"))


def test_the_cpu_from_a_config_file_is_refused():
    code = (
        "from types import SimpleNamespace\nfrom k25serve.patches import launch\n"
        "launch._check_reference(SimpleNamespace(device='cpu'))"
    )
    assert "must be given as --device cpu on the command line" in python(code).stderr
