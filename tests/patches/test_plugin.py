import subprocess
import sys

import pytest

from k25serve.patches import plugin


def test_inert_without_the_stand_in():
    """As on a GPU: nothing replaced, and neither SGLang nor torch imported."""
    code = (
        "import sys\n"
        "from k25serve.patches import plugin\n"
        "plugin.register()\n"
        "assert not {'sgl_kernel', 'torch', 'sglang', 'k25serve.patches.reference.install'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


@pytest.mark.usefixtures("sglang_on_cpu")
def test_register_installs_the_reference():
    from k25serve.patches.reference import install

    plugin.register()
    install.verify()


@pytest.mark.usefixtures("sglang_on_cpu")
def test_a_failing_install_stops_the_process_through_sglangs_own_loader(monkeypatch):
    import sglang.srt.plugins

    from k25serve.patches.reference import install

    def fail():
        raise KeyError("torch_native")

    monkeypatch.setattr(install, "install", fail)
    monkeypatch.setattr(sglang.srt.plugins, "_plugins_loaded", False)
    with pytest.raises(SystemExit) as stopped:
        sglang.srt.plugins.load_plugins()
    line = str(stopped.value)
    assert "\n" not in line
    assert "KeyError: 'torch_native'" in line
    assert "SGLang 0.5.23 found" in line
    assert "supported on the CPU: 0.5.23 (0.5.17 on GPUs only)" in line
    assert "install sglang==0.5.23" in line


@pytest.mark.usefixtures("sglang_on_cpu")
def test_another_sglang_is_refused(monkeypatch):
    monkeypatch.setattr(plugin, "version", lambda name: "0.5.17")
    with pytest.raises(SystemExit, match=r"unsupported SGLang version; SGLang 0\.5\.17 found"):
        plugin.register()


@pytest.mark.usefixtures("sglang_on_cpu")
def test_a_device_mismatch_is_refused(monkeypatch):
    import sglang.srt.utils

    monkeypatch.setattr(sglang.srt.utils, "is_cpu", lambda: False)
    with pytest.raises(SystemExit, match="SGLANG_USE_CPU_ENGINE must be 1"):
        plugin.register()
