"""Hooks over a small module that stands for SGLang's."""

import asyncio
import sys
from types import ModuleType

import pytest
from patch_rows.made import row

from k25serve.patches import fault, wrap
from k25serve.patches.manifest import Hook

TARGET = "sglang.wrap_test"
SOURCE = """
class Worker:
    def step(self, batch): return batch + 1
    @classmethod
    def make(cls, n): return (cls.__name__, n)
    @staticmethod
    def plain(n): return n
    def fail(self): raise ValueError("theirs")
    async def ask(self, n): return n
    async def tell(self, n):
        for i in range(n): yield i
class Child(Worker): pass
def plan(n): return n
size = 3
"""


@pytest.fixture
def module(monkeypatch):
    parent, made, importer = ModuleType("sglang"), ModuleType(TARGET), ModuleType("sglang.importer")
    exec(SOURCE, vars(made))
    importer.renamed = made.plan
    for name, value in (("sglang", parent), (TARGET, made), ("sglang.importer", importer)):
        monkeypatch.setitem(sys.modules, name, value)
    return made


def place(name, kind, method):
    return wrap.place(row(), Hook(f"{TARGET}.{name}", {}, kind, "m"), method)


@pytest.mark.parametrize(
    ("kind", "method", "expected"),
    [
        ("around", lambda original, self, batch: original(self, batch * 10) * 2, 62),
        ("after", lambda result, self, batch: result * 100, 400),
        ("after", lambda result, self, batch: None, 4),
        ("replace", lambda self, batch: -batch, -3),
    ],
)
def test_kinds(module, kind, method, expected):
    placed = place("Worker.step", kind, method)
    assert module.Worker().step(3) == expected
    assert module.Child().step(3) == expected
    assert placed.is_in_place()


def test_class_and_static_methods_stay_what_they_are(module):
    place("Worker.make", "around", lambda original, cls, n: original(cls, n + 1))
    place("Worker.plain", "around", lambda original, n: original(n) + 1)
    assert module.Child.make(1) == ("Child", 2)
    assert module.Worker.plain(1) == 2
    assert module.Worker().plain(1) == 2


def test_a_function_that_others_imported(module):
    place("plan", "after", lambda result, n: result + 1)
    assert sys.modules["sglang.importer"].renamed(1) == module.plan(1) == 2


def test_hooks_on_one_name_nest_and_each_is_found(module):
    inner = place("Worker.step", "after", lambda result, self, batch: result * 2)
    outer = place("Worker.step", "after", lambda result, self, batch: result + 1)
    assert module.Worker().step(1) == 5
    assert inner.is_in_place()
    assert outer.is_in_place()


def test_a_hook_that_was_taken_out_is_seen(module):
    placed = place("Worker.step", "after", lambda result, *args: None)
    module.Worker.step = placed.original
    assert not placed.is_in_place()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Worker.gone", "has no gone"),
        ("Child.step", "Child has no step"),
        ("Gone.step", "has no attribute 'Gone'"),
        ("size", "is int, expected a function"),
        ("Worker", "is type, expected a function"),
    ],
)
def test_a_wrong_target(module, name, message):
    with pytest.raises(LookupError, match=message):
        place(name, "after", print)


def test_a_missing_module():
    with pytest.raises(LookupError, match=r"k25serve\.gone\.f: AttributeError: .* no attribute .gone"):
        wrap.locate("k25serve.gone.f")


def boom(*args):
    raise KeyError("ours")


@pytest.mark.parametrize("kind", ["around", "after", "replace"])
def test_an_exception_in_a_hook_stops_the_process_with_the_rows_name(module, kind):
    place("Worker.step", kind, boom)
    with pytest.raises(fault.PatchFault) as stopped:
        module.Worker().step(1)
    line = str(stopped.value)
    assert line == f"k25serve: error: patch steps: its hook on {TARGET}.Worker.step failed: KeyError: 'ours'"
    assert not isinstance(stopped.value, Exception)


@pytest.mark.parametrize("kind", ["around", "after"])
def test_an_exception_of_sglang_passes_as_it_is(module, kind):
    methods = {"around": lambda original, *args: original(*args), "after": lambda result, *args: None}
    place("Worker.fail", kind, methods[kind])
    with pytest.raises(ValueError, match="theirs"):
        module.Worker().fail()


def test_a_hook_may_handle_sglangs_exception_but_not_fail_of_it(module):
    def handles(original, worker):
        try:
            return original(worker)
        except ValueError:
            return "mended"

    def fails(original, worker):
        try:
            return original(worker)
        except ValueError:
            raise KeyError("ours") from None

    place("Worker.fail", "around", handles)
    assert module.Worker().fail() == "mended"
    module.Worker.fail = module.Worker.fail.__wrapped__
    place("Worker.fail", "around", fails)
    with pytest.raises(fault.PatchFault, match="KeyError: 'ours'"):
        module.Worker().fail()


def test_a_fault_passes_the_hooks_around_it(module):
    place("Worker.step", "after", boom)
    place("Worker.step", "around", lambda original, *args: original(*args))
    with pytest.raises(fault.PatchFault, match="KeyError"):
        module.Worker().step(1)


async def test_coroutines(module):
    async def method(original, self, n):
        return await original(self, n) + 1

    place("Worker.ask", "around", method)
    assert await module.Worker().ask(1) == 2


async def test_a_failing_coroutine_hook(module):
    async def method(original, self, n):
        raise KeyError("ours")

    place("Worker.ask", "around", method)
    with pytest.raises(fault.PatchFault, match="KeyError"):
        await module.Worker().ask(1)


async def test_streams(module):
    async def method(original, self, n):
        async for item in original(self, n):
            yield item * 10

    place("Worker.tell", "around", method)
    assert [item async for item in module.Worker().tell(3)] == [0, 10, 20]


async def test_a_stream_that_is_closed_early_closes_sglangs_too(module):
    closed = asyncio.Event()

    async def source(self, n):
        try:
            while True:
                yield n
        finally:
            closed.set()

    async def method(original, self, n):
        async for item in original(self, n):
            yield item

    module.Worker.tell = source
    place("Worker.tell", "around", method)
    stream = module.Worker().tell(1)
    assert await anext(stream) == 1
    await stream.aclose()
    async with asyncio.timeout(1):
        await closed.wait()


async def test_a_stream_whose_hook_fails_and_one_whose_source_fails(module):
    async def source(self, n):
        yield n
        raise ValueError("theirs")

    async def method(original, self, n):
        async for item in original(self, n):
            yield item
            if n:
                raise KeyError("ours")

    module.Worker.tell = source
    place("Worker.tell", "around", method)
    with pytest.raises(ValueError, match="theirs"):
        [item async for item in module.Worker().tell(0)]
    with pytest.raises(fault.PatchFault, match="KeyError"):
        [item async for item in module.Worker().tell(1)]


def test_after_does_not_fit_what_is_asynchronous(module):
    with pytest.raises(TypeError, match="only `around` fits"):
        place("Worker.ask", "after", print)


def test_in_a_thread_a_fault_ends_the_process(tmp_path):
    import subprocess

    code = (
        "import threading\nfrom k25serve.patches import fault\n"
        "def work(): raise fault.stop('patch x: broke')\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join(); print('still here')"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "k25serve: error: patch x: broke\n")
