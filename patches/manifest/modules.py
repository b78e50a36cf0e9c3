"""An SGLang's modules, each parsed once: a check of all rows asks most of them several times."""

import ast

from k25serve.patches.manifest.fingerprint import fingerprint
from k25serve.patches.manifest.trees import Tree, TreeError, module_of


class Modules:
    """Fingerprints out of a tree. It holds what it has parsed, so it should not outlive the check."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._parsed: dict[str, ast.Module] = {}

    @property
    def version(self) -> str:
        """The tree's."""
        return self._tree.version

    def fingerprint(self, target: str) -> str | None:
        """Of a dotted path; None if it is not there. Raises TreeError where its module is not Python."""
        found = module_of(self._tree, target)
        if found is None:
            return None
        module, name, source = found
        if module not in self._parsed:
            self._parsed[module] = self._parse(module, source)
        return fingerprint(self._parsed[module], name)

    def _parse(self, module: str, source: str) -> ast.Module:
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            where = f" line {line}" if line else ""
            why = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
            raise TreeError(
                f"{module} of SGLang {self.version} is not Python{where} ({why}); "
                f"take the published one: sglang=={self.version}"
            ) from None
