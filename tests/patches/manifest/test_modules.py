import ast

import pytest
from patch_rows.made import MODULE, SOURCE
from patch_rows.wheels import make_wheel

from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.trees import Installed, TreeError, Wheel


def test_each_module_is_parsed_once(tmp_path, monkeypatch):
    parsed, real = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda source: parsed.append(source) or real(source))
    modules = Modules(Wheel.open(make_wheel(tmp_path, "0.5.30", {MODULE: SOURCE})))
    stem = MODULE.removesuffix(".py").replace("/", ".")
    found = [modules.fingerprint(f"{stem}.{name}") for name in ("Worker.step", "plan", "Worker.step", "gone")]
    assert (found[0], found[3]) == (found[2], None)
    assert len({*found[:2]} - {None}) == 2
    assert modules.fingerprint("sglang.nowhere.x") is None
    assert parsed == [SOURCE]


@pytest.mark.parametrize("source", ["def f(:", "x = 1\0", "x = " + "-" * 100_000 + "1", "x = " + "(" * 1000])
def test_a_module_that_is_not_python_is_named(tmp_path, source):
    for tree in (Wheel.open(make_wheel(tmp_path, "0.5.30", {"sglang/a.py": source})), Installed(tmp_path, "0.5.30")):
        (tmp_path / "sglang").mkdir(exist_ok=True)
        (tmp_path / "sglang" / "a.py").write_text(source)
        with pytest.raises(TreeError, match=r"^sglang\.a of SGLang 0\.5\.30 is not Python.*sglang==0\.5\.30$"):
            Modules(tree).fingerprint("sglang.a.f")
