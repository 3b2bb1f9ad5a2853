"""A process that makes and drops kernels, programs and classes for ever does not grow."""

from __future__ import annotations

import gc
import importlib
import linecache
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import PeffectsError

ROOT = Path(__file__).resolve().parents[1]
X = np.linspace(0.1, 1.0, 7)

HEAD = """
import operator
from dataclasses import dataclass
import numpy as np
import peffects as pe
from peffects import Effect, Handler, Operation, effectful, handle
from peffects.handlers import accum, accumulate, get, put, run_state
"""

KERNEL = """
@pe.kernel
def f(x):
    return pe.sum(lambda i: np.sin(x[i]) * 2.5)
"""

FAILS_TO_STAGE = """
@pe.kernel
def f(x):
    return x.nothing + 1.0
"""

FAILS = """
@pe.kernel
def f(x):
    return pe.table(lambda i: x[i + 1], over=len(x))
"""

RECORDS = """
@dataclass(frozen=True)
class Pair:
    a: float
    b: object

@pe.kernel
def f(x):
    pair = Pair(2.0, x)
    return Pair(pair.a, pe.sum(lambda i: pair.a * pair.b[i]))
"""

HANDLED = """
class Ask(Effect): ...

class Number(Operation[Ask, float]):
    by: float

class asks(Handler[Ask]):
    def number(self, op: Number):
        return op.by + 1.0

@effectful
def adds(n):
    for k in range(n):
        yield from put((yield from get()) + (yield from Number(by=float(k))))
    return (yield from get())

def f(x):
    computation = lambda: handle(asks(), handle(run_state(x[0]), adds(3)))
    return pe.run(computation()), pe.kernel(lambda x: pe.run(handle(asks(), handle(
        run_state(x[0]), adds(3)))))(x)
"""

PARALLEL = """
@effectful
def one(i):
    yield from accum(1.0)
    return i

@effectful
def all_of(n):
    return (yield from pe.pfor(pe.Fin(n), one))

def f(x):
    computation = handle(accumulate(0.0, operator.add), all_of(4))
    return pe.run(computation, executor=pe.parallel.Threads(2))
"""

LAMBDA = """
f = pe.kernel(eval("lambda x: pe.sum(lambda i: x[i] * x[i] * 5.5)"))
"""


def called(f: Any) -> None:
    f(X)


def differentiated(f: Any) -> None:
    pe.grad(f)(X)
    pe.value_and_grad(f)(X)
    pe.jvp(f, (X,), (X,))
    _, pullback = pe.vjp(f, X)
    pullback(1.0)


def refused(f: Any) -> None:
    with pytest.raises(PeffectsError) as caught:
        f(X)
    assert str(caught.value)


def explained(f: Any) -> None:
    assert str(pe.explain(f, X))


def debugged(f: Any) -> None:
    f.debug(X)
    with suppress(PeffectsError):
        f.debug(X, nan=True)


def lowered(f: Any) -> None:
    ahead = f.lower(X)
    assert ahead.as_text()
    ahead.compile()(X)


def in_threads(f: Any) -> None:
    threads = [threading.Thread(target=differentiated, args=(f,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


KINDS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "called": (KERNEL, called),
    "differentiated": (KERNEL, differentiated),
    "explained": (KERNEL, explained),
    "debugged": (KERNEL, debugged),
    "lowered": (KERNEL, lowered),
    "in threads": (KERNEL, in_threads),
    "not staged": (FAILS_TO_STAGE, refused),
    "failed": (FAILS, refused),
    "lambda": (LAMBDA, differentiated),
    "records": (RECORDS, called),
    "handlers": (HANDLED, called),
    "executors": (PARALLEL, called),
}


def made(text: str, file: Path) -> dict[str, Any]:
    """The names that a new file with this text defines."""
    file.write_text(HEAD + text)
    space: dict[str, Any] = {"__name__": "made"}
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), space)
    return space


def references(space: dict[str, Any], file: Path) -> Iterator[weakref.ref[Any]]:
    """To the functions and classes of a space and to all code of its file."""
    yield from (weakref.ref(value) for value in space.values() if is_of(value))
    for each in gc.get_objects():
        if getattr(getattr(each, "__code__", None), "co_filename", "") == str(file):
            yield from map(weakref.ref, codes(each.__code__))


def is_of(value: object) -> bool:
    return isinstance(value, pe.Kernel) or getattr(value, "__module__", "") == "made"


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def forget_in_typing() -> None:
    """Fill its tables of generic classes and their arguments, which have the last 128."""
    for number in range(130):
        other: Any = type(f"Other{number}", (pe.Effect,), {})
        assert [pe.Operation[other, float], pe.Handler[other]]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_dropped_is_freed(kind: str, tmp_path: Path) -> None:
    text, use = KINDS[kind]
    space = made(text, file := tmp_path / "made.py")
    use(space["f"])
    left = list(references(space, file))
    assert left
    del space
    forget_in_typing()
    gc.collect()
    assert [found for reference in left if (found := reference()) is not None] == []


def test_module_that_is_loaded_again_frees_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loaded_again.py").write_text(HEAD + KERNEL)
    module = importlib.import_module("loaded_again")
    try:
        differentiated(module.f)
        left = [weakref.ref(module.f), weakref.ref(module.f.__pe_function__.__code__)]
        (tmp_path / "loaded_again.py").write_text(HEAD + KERNEL.replace("2.5", "3.25"))
        linecache.checkcache()
        importlib.invalidate_caches()
        importlib.reload(module)
        assert module.f(X) == pytest.approx(3.25 * np.sin(X).sum())
        differentiated(module.f)
        gc.collect()
        assert [reference() for reference in left] == [None, None]
    finally:
        del sys.modules["loaded_again"]


GROW = """
import gc, os, sys
import numpy as np
import peffects as pe

x = np.linspace(0.1, 1.0, 7)
text = '''
import peffects as pe
@pe.kernel
def f(x):
    return pe.sum(lambda i: x[i] * x[i])
'''

def make(number):
    file = os.path.join(sys.argv[1], f"made{number}.py")
    with open(file, "w") as out:
        out.write(text + "#" * 1000)
    space = {"__name__": "made"}
    exec(compile(text, file, "exec"), space)
    space["f"](x)
    pe.grad(space["f"])(x)

def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

for number in range(600):
    if number == 100:
        before = resident_bytes()
    make(number)
print(resident_bytes() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells no memory of processes")
def test_memory_after_600_kernels_is_that_after_100(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", GROW, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PEFFECTS_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 20e6


# --- code that is in use --------------------------------------------------------------------------


def long_kernel(factor: float) -> Any:
    """A kernel that runs for some tenths of a second, in native code."""

    @pe.kernel
    def f(x):  # type: ignore[no-untyped-def]
        return pe.sum(lambda i: pe.sum(lambda j: np.sin(x[i] + factor * x[j]), over=x), over=x)

    return f


def image_of(f: Any) -> weakref.ref[Any]:
    """The machine code of a kernel that was called with arguments of one kind."""
    ((specialization,),) = f._specializations.values()
    return weakref.ref(specialization.compiled.executable.module._image)


def test_code_that_a_thread_runs_lives_until_it_returns() -> None:
    x = np.linspace(0.0, 1.0, 6000)
    box, found, started = [long_kernel(0.75)], list[float](), threading.Event()
    expected = box[0](x)
    image = image_of(box[0])

    def work() -> None:
        started.set()
        found.append(box.pop()(x))  # nobody else has the kernel now

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    rounds = 0
    while thread.is_alive():
        rounds += not box and image() is not None
        time.sleep(0.001)
        gc.collect()
    thread.join()
    gc.collect()
    assert found == [expected] and rounds > 0
    assert image() is None


def test_code_that_other_threads_call_is_not_freed_with_the_last_name() -> None:
    """Kernels are made, shared by threads and dropped at once; other code takes their memory."""
    found: list[float] = []

    def run(f: Any) -> None:
        found.append(f(X))

    for number in range(6):
        text = f"lambda x: pe.sum(lambda i: x[i] * {number}.5)"
        f = pe.kernel(eval(text, {"pe": pe}))
        threads = [threading.Thread(target=run, args=(f,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        del f
        gc.collect()
        for thread in threads:
            thread.join()
    assert found == pytest.approx([X.sum() * (k + 0.5) for k in range(6) for _ in range(4)])


def test_pullbacks_and_compiled_calls_outlive_their_kernels() -> None:
    f = pe.kernel(lambda x: pe.sum(lambda i: x[i] * x[i] * 1.625))
    reference = weakref.ref(f)
    value, pullback = pe.vjp(f, X)
    gradient: Any = pe.grad(f)
    call = f.lower(X).compile()
    specialized = gradient.lower(X).compile()
    del f, gradient
    gc.collect()
    assert value == call(X) == pytest.approx(1.625 * (X @ X))
    (cotangent,) = pullback(2.0)
    np.testing.assert_allclose(cotangent, 6.5 * X)
    np.testing.assert_allclose(specialized(X), 3.25 * X)
    del call, pullback, specialized
    gc.collect()
    assert reference() is None
