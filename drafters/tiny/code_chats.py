"""Chats about code, made from the syntax trees of source files by fixed sentences of our own."""

import ast
import random
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from k25serve.drafters.tiny.chat import Chat, assistant, user
from k25serve.drafters.tiny.corpus import SourceFile

LONGEST_CODE = 700  # characters
LONGEST_LINE = 160
LONGEST_SUMMARY = 300
EXPLAINED_SHARE = 0.4
THINKING_SHARE = 0.75


@dataclass(frozen=True)
class Function:
    """A short function of the corpus. summary: the first line of its docstring, or empty."""

    name: str
    signature: str
    arguments: tuple[str, ...]
    summary: str
    code: str
    returns: bool


def code_chats(file: SourceFile, rng: random.Random) -> Iterator[Chat]:
    """All the chats one file gives; `rng` decides which answers carry reasoning and which functions are explained."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(file.text)
    except SyntaxError:
        return  # some files of the library hold another version's syntax on purpose
    summary = _first_paragraph(ast.get_docstring(tree))
    if summary:
        reasoning = f"The user asks about the module `{file.module}`. I will quote its summary."
        question = f"What does the module `{file.module}` do?"
        yield Chat("module", (user(question), assistant(summary, reasoning if _thinks(rng) else "")))
    for function in _functions(file, tree):
        yield _write(function, _thinks(rng))
        if rng.random() < EXPLAINED_SHARE:
            yield rng.choice((_explain, _arguments))(function, _thinks(rng))


def _thinks(rng: random.Random) -> bool:
    return rng.random() < THINKING_SHARE


def _write(f: Function, thinking: bool) -> Chat:
    question = f"Write a Python function `{f.name}({f.signature})`" + (f": {f.summary}" if f.summary else ".")
    reasoning = f"The user wants a function `{f.name}`. {_takes(f)}"
    if f.summary:
        reasoning += f" Its purpose: {f.summary}"
    reasoning += " It returns a value." if f.returns else " It returns nothing."
    return Chat("code", (user(question), assistant(_fenced(f.code), reasoning if thinking else "")))


def _explain(f: Function, thinking: bool) -> Chat:
    reasoning = f"The code defines `{f.name}`. I will say what it takes and what it is for."
    answer = f"This is the function `{f.name}`. {_takes(f)}" + (f" {f.summary}" if f.summary else "")
    question = f"Explain this code:\n{_fenced(f.code)}"
    return Chat("explain", (user(question), assistant(answer, reasoning if thinking else "")))


def _arguments(f: Function, thinking: bool) -> Chat:
    reasoning = f"I look at the first line of `{f.name}` and read its arguments."
    question = f"Which arguments does this function take?\n{_fenced(f.code)}"
    answer = "\n".join([_takes(f)] + [f"- `{a}`" for a in f.arguments])
    return Chat("arguments", (user(question), assistant(answer, reasoning if thinking else "")))


def _takes(f: Function) -> str:
    if not f.arguments:
        return "It takes no arguments."
    names = " and ".join(filter(None, [", ".join(f"`{a}`" for a in f.arguments[:-1]), f"`{f.arguments[-1]}`"]))
    return f"It takes {len(f.arguments)} argument{'s' if len(f.arguments) > 1 else ''}: {names}."


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def _functions(file: SourceFile, tree: ast.Module) -> Iterator[Function]:
    source = file.text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        code = textwrap.dedent("\n".join(source[node.lineno - 1 : node.end_lineno]))
        if len(code) > LONGEST_CODE or not code.startswith(("def ", "async def ")):
            continue
        signature = ast.unparse(node.args)
        lines = code.splitlines()
        if len(lines) < 2 or len(signature) > LONGEST_LINE or max(map(len, lines)) > LONGEST_LINE or "```" in code:
            continue
        a = node.args
        found = (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg)
        names = tuple(argument.arg for argument in found if argument)
        summary = (ast.get_docstring(node) or "").strip().split("\n")[0][:LONGEST_LINE]
        returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node))
        yield Function(node.name, signature, names, summary, code, returns)


def _first_paragraph(docstring: str | None) -> str:
    paragraph = " ".join((docstring or "").strip().split("\n\n")[0].split())
    return paragraph if len(paragraph) <= LONGEST_SUMMARY else ""
