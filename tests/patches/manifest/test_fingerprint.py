import ast

import pytest

from k25serve.patches.manifest.fingerprint import fingerprint

SOURCE = '''
class Worker:
    """Runs."""

    @property
    def size(self): return 1

    def step(self, batch, width=4):
        """One step."""
        x = batch + width  # add
        return f"{x}: {batch!r}"
'''


def changed(old: str, new: str) -> str:
    assert old in SOURCE
    return SOURCE.replace(old, new)


def of(source, name):
    return fingerprint(ast.parse(source), name)


BASE = of(SOURCE, "Worker.step")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # add", ""),
        ('        """One step."""\n', ""),
        ('"""Runs."""', '"""Runs well."""'),
        ("x = batch + width", "x = (\n            batch\n            + width\n        )"),
        ("batch, width=4):", "batch,\n        width=4,\n    ):"),
        ("return 1", "return 2"),
        ("class Worker:", "import os\n\nclass Worker(object):"),
    ],
    ids=["comment", "docstring", "class-docstring", "layout", "signature-layout", "sibling", "elsewhere"],
)
def test_what_does_not_count(old, new):
    assert of(changed(old, new), "Worker.step") == BASE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch + width", "batch - width"),
        ("width=4", "width=5"),
        ("batch, width", "group, width"),
        ("!r", ""),
        ("    def step", "    @staticmethod\n    def step"),
        ("    def step", "    async def step"),
        ("        x = batch", "        self.y = 0\n        x = batch"),
    ],
    ids=["operator", "default", "name", "conversion", "decorator", "async", "statement"],
)
def test_what_counts(old, new):
    assert of(changed(old, new), "Worker.step") not in (BASE, None)


def test_whole_class_and_module_function():
    assert of(SOURCE, "Worker") != BASE
    assert of("def f(): pass", "f") == of("def f():\n    'text'\n    pass", "f")


@pytest.mark.parametrize("name", ["Worker.stop", "Other.step", "step", "Worker.step.x"])
def test_missing(name):
    assert of(SOURCE, name) is None


def test_the_last_definition_counts_wherever_it_stands():
    guarded = "import os\nif os.name:\n    def f(): return 1\nelse:\n    def f(): return 2\n"
    assert of(guarded, "f") == of("def f(): return 2", "f")
    assert of("def g():\n    def f(): pass\n", "f") is None


def test_the_same_under_every_supported_python():
    """Recorded once: a fingerprint that moved with the interpreter would refuse every launch."""
    assert BASE == "8ae485b51da25b08"
