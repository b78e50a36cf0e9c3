"""`k25serve patches ...` as a user runs it."""

import pytest
from command_line.call import call
from patch_rows.wheels import make_wheel

from k25serve.patches.manifest import ROWS
from k25serve.patches.manifest.trees import Installed, module_of


def run(*arguments):
    return call("patches", *arguments, columns=160)


@pytest.fixture(scope="module")
def files():
    """What the rows look at, from the installed SGLang: the files of a small wheel that fits."""
    installed = Installed.find()
    found = {}
    for row in ROWS:
        for source in row.sources_in(installed.version):
            module, _, text = module_of(installed, source.target)
            found[module.replace(".", "/") + ".py"] = text
    # A package's own file is found in the wheel under the module's name just as well.
    return found


def test_list_has_every_row_with_its_state():
    done = run("list")
    assert done.returncode == 0, done.stderr
    for row in ROWS:
        assert row.name in done.stdout
    assert "SGLang 0.5.23" in done.stdout
    assert "always on" in done.stdout
    assert "NO" not in done.stdout.split()


def test_the_installed_sglang_passes():
    done = run("verify")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "SGLang 0.5.23"
    assert "  mla_verify: fits" in done.stdout.splitlines()
    assert "  spec_tokens_details: left out, for 0.5.17 only" in done.stdout.splitlines()


def test_a_wheel_that_fits(tmp_path, files):
    wheel = make_wheel(tmp_path, "0.5.23", files)
    done = run("verify", "--sglang-wheel", str(wheel))
    assert done.returncode == 0, done.stdout
    assert "NO" not in run("list", "--sglang-wheel", str(wheel)).stdout.split()


def test_a_wheel_that_does_not_fit_names_row_source_and_remedy(tmp_path, files):
    changed = {name: text.replace("def on_idle(self", "def on_idle(self, now=None") for name, text in files.items()}
    wheel = make_wheel(tmp_path, "0.5.23", changed)
    done = run("verify", "--sglang-wheel", str(wheel))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = lines.index("  step_seconds: does not fit")
    assert lines[at + 1].startswith("    sglang.srt.managers.scheduler.Scheduler.on_idle has fingerprint ")
    assert "expected" in lines[at + 1]
    assert lines[at + 2].startswith("    remedy: install sglang==0.5.23 as published, or start without it: --set ")
    assert "  mla_verify: fits" in lines
    assert "NO: see" in run("list", "--sglang-wheel", str(wheel)).stdout


def test_a_new_version_is_judged_source_by_source(tmp_path, files):
    moved = {name: text for name, text in files.items() if "triton_backend" not in name}
    done = run("verify", "--sglang-wheel", str(make_wheel(tmp_path, "0.6.0", moved)))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = lines.index("  mla_verify: does not fit")
    assert lines[at + 1] == "    written for SGLang 0.5.17 and 0.5.23, found 0.6.0"
    assert lines[at + 2].endswith("TritonAttnBackend.__init__ is not in SGLang 0.6.0")
    at = lines.index("  step_seconds: does not fit")
    assert lines[at + 2].startswith("    remedy: ")


def test_a_wheel_whose_python_is_none(tmp_path, files):
    path = "sglang/srt/managers/scheduler.py"
    spoilt = {**files, path: "x = 1\ndef broken(:\n"}
    done = run("verify", "--sglang-wheel", str(make_wheel(tmp_path, "0.5.23", spoilt)))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("k25serve: error: sglang.srt.managers.scheduler of SGLang 0.5.23 is not Python line 2 (")
    assert line.endswith("take the published one: sglang==0.5.23")


@pytest.mark.parametrize("command", ["verify", "list"])
def test_a_file_that_is_no_wheel(tmp_path, command):
    (tmp_path / "x.whl").write_text("no")
    for file in ("x.whl", "gone.whl"):
        done = run(command, "--sglang-wheel", str(tmp_path / file))
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("k25serve: error: ")
        assert file in line


def test_compile_is_the_gate():
    done = run("compile", "--arch", "sm_80")
    assert done.returncode == 2
    assert "usage: k25serve patches compile" in done.stderr
    assert "'sm_120'" in done.stderr
