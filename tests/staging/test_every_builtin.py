"""Every builtin, operator and function of Python's library, with symbols at every place.

A kernel gives what Python gives, or raises a PeffectsError with the user's line and a fix: never an
internal error, never a raw error of Python, never a value where Python has none.  What Python gives
is the oracle.  HYPOTHESIS_PROFILE=search tries each kind of symbol at each place.
"""

# ruff: noqa: UP031, F507, RUF005  (what is written so is the point)

from __future__ import annotations

import bisect
import builtins
import cmath
import collections
import fractions
import functools
import heapq
import itertools
import math
import operator
import os
import signal
import statistics
import warnings
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from staged import run

import peffects as pe
from peffects.errors import InternalError, PeffectsError

Function = Callable[..., Any]

# --- what is called ------------------------------------------------------------------------------

_NOT_CALLED = {
    "breakpoint", "copyright", "credits", "exit", "help", "input", "license", "open", "print",
    "quit", "update_wrapper", "wraps",
}  # fmt: skip
MODULES: list[ModuleType] = [
    builtins, operator, math, cmath, statistics, itertools, functools, collections, bisect, heapq,
]  # fmt: skip


def functions_of(module: ModuleType) -> Iterator[tuple[str, Function]]:
    for name in sorted(vars(module)):
        function = getattr(module, name)
        error = isinstance(function, type) and issubclass(function, BaseException)
        home = (getattr(function, "__module__", None) or module.__name__).removeprefix("_")
        elsewhere = home.partition(".")[0] != module.__name__
        hidden = name.startswith("_") or name in _NOT_CALLED or elsewhere
        if callable(function) and not error and not hidden:
            yield f"{module.__name__}.{name}", function


_METHODS: dict[str, Function] = {
    f"{kind.__name__}.{name}": getattr(kind, name)
    for kind in (int, float, complex, str, bytes, list, tuple, dict, set, range, fractions.Fraction)
    for name in sorted(vars(kind))
    if not name.startswith("_") and callable(getattr(kind, name))
}

FORMS: list[Function] = [
    lambda f, v: f(v),
    lambda f, v: f(v, v),
    lambda f, v: f(v, 2),
    lambda f, v: f(2, v),
    lambda f, v: f([1, v]),
    lambda f, v: f((v, v), 1),
    lambda f, v: f("ab", v),
    lambda f, v: f([1, 2, 3], v),
    lambda f, v: f(v, [1, 2, 3]),
    lambda f, v: f([3, v, 1], [1, 2, v]),
    lambda f, v: f(lambda *a: a[0], [1, v]),
    lambda f, v: f(lambda *a: a[0], v),
    lambda f, v: f(v, 2, 3),
    lambda f, v: f(2, v, 3),
    lambda f, v: f(2, 3, v),
    lambda f, v: f({1: v}),
    lambda f, v: f(None, v),
    lambda f, v: f(v, "ab", [v]),
]

# --- what Python writes without a call -----------------------------------------------------------


class _Pair(NamedTuple):
    a: Any
    b: Any


def _unpacked(f: Any, v: Any) -> Any:
    a, *b = v
    return a, b


def _looped(f: Any, v: Any) -> Any:
    total = 0
    for k in v:
        total = total + k
    return total


def _added(f: Any, v: Any) -> Any:
    found = 1
    found += v
    found *= v
    found -= 3
    return found


def _deleted(f: Any, v: Any) -> Any:
    found = {1: v, 2: 3}
    found.pop(v, None)
    return found


EXPRESSIONS: list[Function] = [
    _unpacked, _looped, _added, _deleted,
    lambda f, v: [*v], lambda f, v: (v, *v), lambda f, v: {**v}, lambda f, v: {*[v]},
    lambda f, v: [k for k in v], lambda f, v: [1, 2, 3][v], lambda f, v: [1, 2, 3][v:],
    lambda f, v: [1, 2, 3][:v], lambda f, v: "abc"[v], lambda f, v: {3: 1.0}[v],
    lambda f, v: v[0], lambda f, v: v[1:], lambda f, v: v[...], lambda f, v: v["a"],
    lambda f, v: v.real, lambda f, v: v.imag, lambda f, v: v.nothing, lambda f, v: v(),
    lambda f, v: v(1), lambda f, v: f"{v}", lambda f, v: f"{[v]}", lambda f, v: f"{v!r:>8}",
    lambda f, v: "%s" % v, lambda f, v: "%d %s" % (v, 1), lambda f, v: "%(a)s" % {"a": v},
    lambda f, v: "ab" % v, lambda f, v: f"{v}", lambda f, v: f"{[v][0]}",
    lambda f, v: str([v]), lambda f, v: v and 2, lambda f, v: v or 2, lambda f, v: not v,
    lambda f, v: 1 if v else 2, lambda f, v: v in [1, 2, 3], lambda f, v: 3 in (1, v),
    lambda f, v: 3 in {1: v}, lambda f, v: 3 in v, lambda f, v: 1 < v < 5, lambda f, v: v is None,
    lambda f, v: v is True, lambda f, v: v is not False,
    lambda f, v: v == None, lambda f, v: v == "a", lambda f, v: v != (1, 2),  # noqa: E711
    lambda f, v: [1, v] == [1, 3], lambda f, v: (v, 1) < (4, 2), lambda f, v: [v] * 2,
    lambda f, v: [1] * v, lambda f, v: "ab" * v, lambda f, v: v @ v, lambda f, v: [1] + [v],
    lambda f, v: [1] + v, lambda f, v: -v, lambda f, v: +v, lambda f, v: v**v,
    lambda f, v: v**-1.0, lambda f, v: 2 << v, lambda f, v: v >> 1, lambda f, v: v & 1,
    lambda f, v: v ^ v, lambda f, v: v // 2, lambda f, v: 7 % v, lambda f, v: {v: 1},
    lambda f, v: {1, v}, lambda f, v: (lambda a=v: a)(), lambda f, v: f(*[v]),
    lambda f, v: list(map(lambda k: k * v, [1, 2])), lambda f, v: sorted([v, 1, 2]),
    lambda f, v: max([v, 1], key=abs), lambda f, v: max(k * v for k in (1, 2)),
    lambda f, v: sum(k * v for k in (1, 2)), lambda f, v: any([v, 0]), lambda f, v: all([v, 1]),
    lambda f, v: list(zip([1, 2], [v, v], strict=False)), lambda f, v: dict(a=v),
    lambda f, v: dict([(1, v)]),
    lambda f, v: list(enumerate([4, 5], start=v)), lambda f, v: list(enumerate([4, v])),
    lambda f, v: list(reversed([1, v])), lambda f, v: sum([v, v], start=v),
    lambda f, v: pow(v, 3, 5), lambda f, v: pow(2, v, 5), lambda f, v: divmod(7, v),
    lambda f, v: round(v, 1), lambda f, v: int(v, 10), lambda f, v: int(v), lambda f, v: bool(v),
    lambda f, v: type(v) in (int, float), lambda f, v: type(v) is float,
    lambda f, v: isinstance(v, int),
    lambda f, v: isinstance(v, (int, float)), lambda f, v: id(v), lambda f, v: hash((v,)),
    lambda f, v: list(itertools.chain([v], [1])), lambda f, v: list(itertools.accumulate([v, 1])),
    lambda f, v: functools.reduce(lambda a, b: a * b, [v, 2, v]),
    lambda f, v: functools.partial(lambda a, b: a - b, v)(1),
    lambda f, v: collections.deque([v, 1])[0], lambda f, v: collections.Counter([v]),
    lambda f, v: _Pair(v, 1), lambda f, v: range(10)[v],
    lambda f, v: v.is_integer(), lambda f, v: v.conjugate(), lambda f, v: v.bit_length(),
    lambda f, v: getattr(v, "real"), lambda f, v: hasattr(v, "real"),  # noqa: B009
    lambda f, v: list(range(v)), lambda f, v: list(range(2, 5, v)), lambda f, v: slice(v),
]  # fmt: skip

# --- symbols -------------------------------------------------------------------------------------

TABLE = np.array([3.0, 2.0, 1.0])
NUMBERS: dict[str, Any] = {
    "float": 2.5, "int": 3, "float32": np.float32(2.5), "uint8": np.uint8(3), "bool": True,
    "complex": 1.5 + 0.5j, "table": TABLE, "whole": np.array([3, 1, 2]),
}  # fmt: skip


def _accumulated(call: Function) -> Any:
    sums = pe.accumulator(3)
    return call(sums)


def _each(call: Function) -> Any:
    return pe.table(lambda i: call(i), over=2)


OTHERS: dict[str, tuple[Function, Any]] = {
    "index": (_each, None),
    "state": (lambda call: call(pe.state(TABLE)), TABLE),
    "cell": (lambda call: call(pe.state(2.5)), None),
    "accumulator": (_accumulated, None),
}
SETS: dict[str, Any] = {"set": 3}
KINDS = [*NUMBERS, *OTHERS, *SETS]

_NONE = object()


def expected(form: Function, function: Function | None, kind: str) -> Any:
    """What Python gives, or `_NONE`."""
    value = NUMBERS.get(kind, OTHERS.get(kind, (None, None))[1])
    if kind not in NUMBERS and kind != "state":
        return _NONE
    try:
        return listed(form(function, value.copy() if isinstance(value, np.ndarray) else value))
    except Exception:
        return _NONE


def found(form: Function, function: Function | None, kind: str) -> Any:
    """What a kernel gives."""
    if kind in NUMBERS:
        return run(lambda v: form(function, v), NUMBERS[kind])
    if kind in SETS:
        return run(lambda n: form(function, pe.Fin(n)), SETS[kind])
    inside = OTHERS[kind][0]
    return run(lambda: inside(lambda v: form(function, v)))


def listed(value: Any, depth: int = 0) -> Any:
    """`value` with lists in place of iterators, which give their elements once."""
    if depth > 4:
        return value
    if isinstance(value, Iterator):
        return [listed(x, depth + 1) for x in itertools.islice(value, 20)]
    if isinstance(value, list | tuple):
        return [listed(x, depth + 1) for x in value]
    if isinstance(value, dict):
        return {key: listed(x, depth + 1) for key, x in value.items()}
    return value


def alike(x: Any, y: Any) -> bool:
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(alike, x, y))
    if isinstance(x, dict) and isinstance(y, dict):
        return list(x) == list(y) and all(alike(x[key], y[key]) for key in x)
    try:
        return bool(np.allclose(np.asarray(x), np.asarray(y), rtol=1e-6, equal_nan=True))
    except (TypeError, ValueError):
        return type(x) is type(y)


_EXTENDED = ("math.", "cmath.", "statistics.")
"""Their functions take whole tables and complex numbers, too, and follow IEEE 754."""
_OTHERWISE = {
    ("operator.inv", "bool"), ("operator.invert", "bool"),  # as numpy's: not
    ("math.ulp", "float32"),  # of the type of the number
}  # fmt: skip
_BY_CHANCE = {"builtins.id"}
"""What they give depends on where an object lies in memory."""


def check(name: str, place: int, form: Function, function: Function | None, kind: str) -> None:
    wanted = expected(form, function, kind)
    where = f"{name}, form {place}, {kind}"
    try:
        given = listed(found(form, function, kind))
    except PeffectsError as error:
        assert not isinstance(error, InternalError), where
        assert error.fix and error.at.line, where
        return
    except Exception as error:
        raise AssertionError(f"{where} raises {error!r}") from error
    if name in _BY_CHANCE or (name, kind) in _OTHERWISE:
        return
    if kind not in NUMBERS and kind != "state":
        return
    if wanted is _NONE:
        assert name.startswith(_EXTENDED), f"{where} gives {given!r}, where Python has no value"
        return
    assert alike(given, wanted), f"{where} gives {given!r}, not {wanted!r}"


ALL = os.environ.get("HYPOTHESIS_PROFILE") == "search"


def kinds_for(place: int, count: int) -> list[str]:
    """Some of the kinds, others at each place, or all."""
    return KINDS if ALL else [KINDS[(place * count + k) % len(KINDS)] for k in range(count)]


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Stop a test that does not come to an end."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(600 if ALL else 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_functions_of_symbols(module: ModuleType) -> None:
    for number, (name, function) in enumerate(functions_of(module)):
        for place, form in enumerate(FORMS):
            for kind in kinds_for(place + number, 2 if module in MODULES[:2] else 1):
                check(name, place, form, function, kind)


def test_methods_of_numbers_texts_and_containers() -> None:
    for number, (name, function) in enumerate(_METHODS.items()):
        for place, form in enumerate(FORMS):
            for kind in kinds_for(place + number, 1 if (place + number) % 3 == 0 else 0):
                check(name, place, form, function, kind)


def test_expressions_and_statements() -> None:
    for place, form in enumerate(EXPRESSIONS):
        for kind in kinds_for(place, 5):
            check("an expression", place, form, lambda *a: a, kind)
