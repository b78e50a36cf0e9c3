import pytest
from patch_rows.wheels import make_wheel

from k25serve.patches.manifest.trees import Installed, TreeError, Wheel, module_of


def test_a_wheel_is_read_in_place(tmp_path):
    wheel = Wheel.open(make_wheel(tmp_path, "0.5.30", {"sglang/a/__init__.py": "x = 1", "sglang/a/b.py": "y = 2"}))
    assert wheel.version == "0.5.30"
    assert module_of(wheel, "sglang.a.b.C.f") == ("sglang.a.b", "C.f", "y = 2")
    assert module_of(wheel, "sglang.a.C.f") == ("sglang.a", "C.f", "x = 1")
    assert module_of(wheel, "sglang.z.f") is None
    assert module_of(wheel, "sglang") is None


def test_an_installed_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "a.py").write_bytes(b"\xff\xfe")
    with pytest.raises(TreeError, match=r"sglang/a\.py is damaged: not text; install sglang==0\.5\.30 again"):
        module_of(Installed(tmp_path, "0.5.30"), "sglang.a.f")


def test_no_wheel(tmp_path):
    file = tmp_path / "x.whl"
    file.write_text("no zip")
    with pytest.raises(TreeError, match=r"x\.whl is no wheel; download one with: pip download"):
        Wheel.open(file)


def test_another_package(tmp_path):
    with pytest.raises(TreeError, match="holds vllm, not sglang"):
        Wheel.open(make_wheel(tmp_path, "1.0", {}, name="vllm"))


def test_a_zip_without_metadata(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        archive.writestr("sglang/a.py", "")
    with pytest.raises(TreeError, match="holds no package, not sglang"):
        Wheel.open(tmp_path / "x.whl")


def test_the_installed_one_is_found_without_importing_it():
    import subprocess
    import sys

    code = (
        "import sys\nfrom k25serve.patches.manifest.trees import Installed\n"
        "tree = Installed.find()\nassert 'class Scheduler' in tree.read('sglang/srt/managers/scheduler.py')\n"
        "assert tree.read('sglang/none.py') is None\nassert 'sglang' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    assert Installed.find().version


def test_no_sglang(monkeypatch):
    from importlib.metadata import PackageNotFoundError

    from k25serve.patches.manifest import trees

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(trees, "installed_version", missing)
    with pytest.raises(TreeError, match="SGLang is not installed; give --sglang-wheel FILE"):
        Installed.find()


def test_a_file_that_is_damaged_inside_a_wheel(tmp_path):
    file = make_wheel(tmp_path, "0.5.30", {"sglang/a.py": "x = 'found'"})
    whole = Wheel.open(file)
    file.write_bytes(file.read_bytes().replace(b"x = 'found'", b"x = 'FOUND'"))
    with pytest.raises(TreeError, match=r"sglang/a\.py in it is damaged; download it again"):
        whole.read("sglang/a.py")
