"""The real manifest: each row is whole, and its class has the methods that its hooks name."""

import ast
from pathlib import Path

import pytest

import k25serve.patches.manifest.rows
from k25serve.patches.manifest import ROWS
from k25serve.server.config.versions import SUPPORTED_SGLANG

ROOT = Path(next(iter(k25serve.patches.__path__)))


def test_names_are_unique_and_every_file_is_in_the_table():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert {path.stem for path in (ROOT / "manifest" / "rows").glob("[!_]*.py")} == set(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_whole(row):
    assert list(row.versions) == [version for version in reversed(SUPPORTED_SGLANG) if version in row.versions]
    for text in (row.reason, row.upstream, row.remove_when):
        assert text.strip() == text != ""
    for source in row.sources_in(row.versions[-1]):
        assert source.target.startswith("sglang.")
    for value in (v for source in (*row.hooks, *row.relies_on) for v in source.fingerprints.values()):
        assert len(value) == 16
        assert int(value, 16)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_its_code_has_the_methods(row):
    module, _, name = row.code.partition(":")
    source = ROOT.parent.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = {node.name for node in classes[name].body if isinstance(node, functions)}
    assert {hook.method for hook in row.hooks} <= methods
    assert "__init__" in methods


def test_every_supported_version_has_its_proof():
    (check,) = [row for row in ROWS if row.required]
    assert set(check.versions) == set(SUPPORTED_SGLANG)
    assert ROWS[-1] is check
    for version in SUPPORTED_SGLANG:
        assert {hook.process for hook in check.hooks_in(version)} == {"main", "scheduler"}
