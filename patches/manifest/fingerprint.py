"""Fingerprint of a piece of Python source: the same whatever its comments, docstrings, layout and Python version."""

import ast
import hashlib
from collections.abc import Iterator

# Fields that say nothing of behaviour, or that not every supported Python's parser has.
_SILENT = ("ctx", "kind", "type_comment", "type_ignores", "type_params")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
DIGITS = 16


def fingerprint(module: ast.Module, qualname: str) -> str | None:
    """Hash of the definition `qualname` ("Class.method") in a module; None if it is not there.

    Decorators and default values are part of it.
    """
    node = find(module, qualname)
    if node is None:
        return None
    return hashlib.sha256("\n".join(_lines(node)).encode()).hexdigest()[:DIGITS]


def find(tree: ast.Module, qualname: str) -> ast.AST | None:
    """The definition that `qualname` has once the module has run: the last one of its name."""
    node: ast.AST = tree
    for name in qualname.split("."):
        found = [child for child in _scope(node) if isinstance(child, _DEFINITIONS) and child.name == name]
        if not found:
            return None
        node = found[-1]
    return node


def _scope(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a body, those under its `if` and `try` too, but not those of the definitions in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _scope(child)


def _lines(node: ast.AST) -> Iterator[str]:
    yield type(node).__name__
    for field, value in ast.iter_fields(node):
        if field in _SILENT or value is None or value == []:
            continue
        yield f".{field}"
        if field == "body" and isinstance(node, _DEFINITIONS):
            value = _without_docstring(value)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _lines(item)
            else:
                yield f"{type(item).__name__} {item!r}"
    yield "/"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
    return body
