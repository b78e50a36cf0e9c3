"""A hook around one function of SGLang, and its place in SGLang."""

import functools
import inspect
import pkgutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from k25serve.patches import fault
from k25serve.patches.manifest import Hook, Row

_FROM_SGLANG = "__k25serve_from_sglang__"


@dataclass(frozen=True)
class Placed:
    """A hook in place: `wrapper` is what SGLang now calls, `original` what it called before."""

    row: Row
    hook: Hook
    original: Callable[..., Any]
    wrapper: Callable[..., Any]

    def is_in_place(self) -> bool:
        """Whether the target still is, or still leads to, our wrapper: others may have wrapped it since."""
        _, _, found = locate(self.hook.target)
        while found is not None:
            if found is self.wrapper:
                return True
            found = getattr(found, "__wrapped__", None)
        return False


def place(row: Row, hook: Hook, method: Callable[..., Any]) -> Placed:
    """Put `method` at the hook's target. Raises LookupError where the target is no function of SGLang."""
    holder, name, original = locate(hook.target)
    if not isinstance(original, FunctionType):
        raise LookupError(f"{hook.target} is {type(original).__name__}, expected a function")
    wrapper = _wrapper(row, hook, method, original)
    raw = inspect.getattr_static(holder, name)
    setattr(holder, name, type(raw)(wrapper) if isinstance(raw, classmethod | staticmethod) else wrapper)
    if isinstance(holder, ModuleType):
        _replace_imported(original, wrapper)
    return Placed(row, hook, original, wrapper)


def locate(target: str) -> tuple[Any, str, Any]:
    """(module or class, name, plain function) of a dotted path; imports its module.

    Raises LookupError where it is not there, or is inherited.
    """
    path, _, name = target.rpartition(".")
    try:
        holder = pkgutil.resolve_name(path)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"{target}: {fault.of(error)}") from error
    if name not in vars(holder):
        raise LookupError(f"{path} has no {name}")
    found = vars(holder)[name]
    return holder, name, found.__func__ if isinstance(found, classmethod | staticmethod) else found


def _wrapper(row: Row, hook: Hook, method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """What SGLang calls: of the kind that `original` is (function, coroutine function, async generator function).

    An exception of SGLang's own passes; one of the hook stops the process with the row's name.
    """
    if inspect.isasyncgenfunction(original) or inspect.iscoroutinefunction(original):
        if hook.kind != "around":
            raise TypeError(f"{hook.target} is asynchronous: only `around` fits, not `{hook.kind}`")
        make = _stream if inspect.isasyncgenfunction(original) else _coroutine
        return functools.wraps(original)(make(row, hook, method, original))

    def sglang(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as error:
            setattr(error, _FROM_SGLANG, True)
            raise

    def around(*args: Any, **kwargs: Any) -> Any:
        return method(sglang, *args, **kwargs)

    def after(*args: Any, **kwargs: Any) -> Any:
        result = sglang(*args, **kwargs)
        own = method(result, *args, **kwargs)
        return result if own is None else own

    call = {"around": around, "after": after, "replace": method}[hook.kind]

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            if getattr(error, _FROM_SGLANG, False):
                raise
            raise _fault(row, hook, error) from error

    return wrapper


def _coroutine(row: Row, hook: Hook, method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    async def sglang(*args: Any, **kwargs: Any) -> Any:
        try:
            return await original(*args, **kwargs)
        except Exception as error:
            setattr(error, _FROM_SGLANG, True)
            raise

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(sglang, *args, **kwargs)
        except Exception as error:
            if getattr(error, _FROM_SGLANG, False):
                raise
            raise _fault(row, hook, error) from error

    return wrapper


def _stream(row: Row, hook: Hook, method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    async def sglang(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(original(*args, **kwargs)) as items:
                async for item in items:
                    yield item
        except Exception as error:
            setattr(error, _FROM_SGLANG, True)
            raise

    async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(method(sglang, *args, **kwargs)) as items:
                async for item in items:
                    yield item
        except Exception as error:
            if getattr(error, _FROM_SGLANG, False):
                raise
            raise _fault(row, hook, error) from error

    return wrapper


def _fault(row: Row, hook: Hook, error: Exception) -> fault.PatchFault:
    return fault.stop(f"patch {row.name}: its hook on {hook.target} failed: {fault.of(error)}", error)


def _replace_imported(original: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
    """Modules that took the function with `from ... import` have it under a name of their own."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.startswith("sglang."):
            for name, value in list(vars(module).items()):
                if value is original:
                    setattr(module, name, wrapper)
