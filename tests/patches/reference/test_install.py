import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

pytestmark = pytest.mark.usefixtures("sglang_on_cpu")


@pytest.fixture
def install():
    from k25serve.patches.reference import install

    return install


def test_every_name_is_replaced_by_identity_and_again(install):
    for _ in range(2):
        install.install()
        assert all(row.read() is row.new for row in install.replacements())

    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.models.deepseek_common.attention_backend_handler import AttentionBackendRegistry
    from sglang.srt.models.deepseek_common.attention_forward_methods.forward_methods import AttnForwardMethod
    from sglang.srt.speculative import eagle_utils

    assert ATTENTION_BACKENDS["torch_native"].__module__ == "k25serve.patches.reference.backend"
    assert AttentionBackendRegistry.get_handler("torch_native")(None, None) is AttnForwardMethod.MLA
    assert eagle_utils._verify_uses_greedy.__module__ == "k25serve.patches.reference.sampling"


def test_a_displaced_replacement_is_named(install, monkeypatch):
    from sglang.srt.speculative import eagle_utils

    install.install()
    monkeypatch.setattr(eagle_utils, "top_p_renorm_prob", None)
    with pytest.raises(
        RuntimeError, match=r"eagle_utils\.top_p_renorm_prob: the replacement is not in place, found None"
    ):
        install.verify()


def changed(x):
    return x


@pytest.mark.parametrize(
    ("holder", "name", "original", "message"),
    [
        ("", "changed", ("x", "y"), r"victim\.changed: expected \('x', 'y'\), found \('x',\)"),
        ("", "changed", None, r"victim\.changed: expected None, found \('x',\)"),
        ("", "missing", None, r"victim\.missing: expected None, found absent"),
        ("", "gone", ("x",), r"victim\.gone: expected \('x',\), found None"),
        ("Registry._handlers", "known", "absent", r"victim\.Registry\._handlers\.known: expected absent"),
    ],
)
def test_an_original_that_changed_is_refused(install, monkeypatch, holder, name, original, message):
    handlers = {"known": print}
    victim = ModuleType("victim")
    victim.__dict__.update(changed=changed, gone=None, Registry=SimpleNamespace(_handlers=handlers))
    monkeypatch.setitem(sys.modules, "victim", victim)
    with pytest.raises(RuntimeError, match=message):
        install.Replacement("victim", holder, name, lambda: None, original).write()
    assert victim.changed is changed
    assert handlers == {"known": print}


def test_upstreams_own_verify_would_ignore_temperature(install):
    """The reason for the replacement; when this fails, upstream has changed and the row can go."""
    from sglang.srt.speculative import eagle_utils

    source = Path(eagle_utils.__file__).read_text(encoding="utf-8")
    assert "return is_all_greedy or is_cpu or" in source
