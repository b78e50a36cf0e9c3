"""The rules of the tree: who may import what, how long a file may be, what no file may be called."""

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("server", "patches", "drafters", "bench", "deploy", "tests")
LINES_AT_MOST, MEDIAN_AT_MOST = 400, 100
FILES = sorted(path for f in FOLDERS for path in (ROOT / f).rglob("*.py") if "models" not in path.parts)
# Engine code that only patches/ may touch; in these parts of bench/ inside functions.
ENGINE = ("sglang", "triton", "sgl_kernel")
ENGINE_IN_FUNCTIONS = ("bench/kernels", "bench/comm", "bench/gpu")


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Modules that a file imports: everywhere, or where the import runs with the module."""
    tree = ast.parse(path.read_text())
    for node in _module_level(tree) if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def _module_level(tree: ast.Module) -> set[ast.AST]:
    found: set[ast.AST] = set()
    queue: list[ast.AST] = list(tree.body)
    while queue:
        node = queue.pop()
        found.add(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            queue.extend(ast.iter_child_nodes(node))
    return found


def starts(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_imports(path: Path) -> None:
    name = relative(path)
    if name.startswith("tests/"):
        return
    for module in imports(path):
        if starts(module, *ENGINE):
            in_function = module not in set(imports(path, top_level=True))
            allowed = name.startswith("patches/") or (name.startswith(ENGINE_IN_FUNCTIONS) and in_function)
            assert allowed, f"{name} imports {module}: only patches/ touches the engine"
        if name.startswith("server/"):
            assert not starts(module, "torch"), f"{name} imports {module}: a gateway starts without torch"
            is_data = starts(module, "k25serve.patches.manifest", "k25serve.patches.adaptive.costs")
            assert is_data or not starts(module, "k25serve.patches"), f"{name} imports {module}"
            assert name == "server/host.py" or not starts(module, "k25serve.bench"), f"{name} imports {module}"
        if name.startswith("drafters/"):
            assert not starts(module, "k25serve.server", "k25serve.patches", "k25serve.bench"), (
                f"{name} imports {module}"
            )
        if name.startswith("patches/manifest/"):
            own = starts(module, "k25serve.patches.manifest")
            assert own or module.partition(".")[0] in sys.stdlib_module_names, f"{name} imports {module}: it is data"
        if name.startswith("patches/"):
            assert not starts(module, "k25serve.drafters", "k25serve.bench"), f"{name} imports {module}"


def test_files_are_short() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in FILES}
    assert {name: n for name, n in lengths.items() if n > LINES_AT_MOST} == {}
    code = [n for name, n in lengths.items() if not name.startswith("tests/") and not name.endswith("__init__.py")]
    assert statistics.median(code) <= MEDIAN_AT_MOST


def test_no_drawer_for_everything() -> None:
    assert [relative(path) for path in FILES if path.stem in ("utils", "common", "helpers", "misc")] == []


# What a framework wants as a module's own object: it holds declarations, not the state of a run.
DECLARATIONS = ("typer.Typer", "Console", "logging.getLogger", "APIRouter")


def test_no_module_level_state() -> None:
    """A module assigns constants only: no lower-case name at the top level, but for declarations."""
    found = [
        f"{relative(path)}: {target.id} = {ast.unparse(value)[:60]}"
        for path in FILES
        if not relative(path).startswith("tests/")
        for node in ast.parse(path.read_text()).body
        for target, value in _assignments(node)
        if isinstance(target, ast.Name) and target.id.islower() and not target.id.startswith("__")
        if not (isinstance(value, ast.Call) and ast.unparse(value.func) in DECLARATIONS)
    ]
    assert found == []


def _assignments(node: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    return [(node.target, node.value)] if isinstance(node, ast.AnnAssign) and node.value else []
