"""`hasattr`, `getattr`, `vars` and globals of any name are read again at each call, or refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import peffects as pe
from peffects.errors import KernelRecursionError, SideEffectError

BOX = SimpleNamespace(size=2.0)
_pe_factor = 2.0
ENVIRONMENT = os.environ


@pytest.fixture(autouse=True)
def as_it_was() -> Any:
    vars(BOX).clear()
    BOX.size = 2.0
    yield
    vars(BOX).clear()


def grow() -> None:
    BOX.size, BOX.extra = 3.0, 5.0


READS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "hasattr": (lambda x: x if hasattr(BOX, "extra") else -x, -1.0, 1.0),
    "getattr": (lambda x: x * getattr(BOX, "size"), 2.0, 3.0),  # noqa: B009
    "getattr with a default": (lambda x: x * getattr(BOX, "extra", 7.0), 7.0, 5.0),
    "vars": (lambda x: x * vars(BOX)["size"], 2.0, 3.0),
    "__dict__": (lambda x: x * BOX.__dict__["size"], 2.0, 3.0),
    "in vars": (lambda x: x if "extra" in vars(BOX) else -x, -1.0, 1.0),
    "isinstance": (lambda x: x if isinstance(BOX.__dict__.get("extra"), float) else -x, -1.0, 1.0),
}


@pytest.mark.parametrize("how", READS)
def test_reads_are_never_stale(how: str) -> None:
    function, before, after = READS[how]
    kernel = pe.kernel(function)
    assert kernel(1.0) == before == kernel(1.0)
    grow()
    assert kernel(1.0) == after == kernel(1.0)


def test_an_attribute_that_goes_away() -> None:
    grow()
    kernel = pe.kernel(lambda x: x * getattr(BOX, "extra", 7.0))
    assert kernel(1.0) == 5.0
    del BOX.extra
    assert kernel(1.0) == 7.0


def test_locals_of_the_function() -> None:
    def doubled(x: Any) -> Any:
        y = 2.0 * x  # noqa: F841
        return vars()["y"]

    assert pe.kernel(doubled)(1.5) == 3.0


def test_globals_whose_names_look_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = pe.kernel(lambda x: x * _pe_factor)
    assert kernel(1.0) == 2.0
    monkeypatch.setattr(sys.modules[__name__], "_pe_factor", 3.0)
    assert kernel(1.0) == 3.0


REFUSED: dict[str, Callable[[Any], Any]] = {
    "globals": lambda x: x * globals()["_pe_factor"],
    "dir": lambda x: x * len(dir(BOX)),
    "eval": lambda x: x * eval("_pe_factor"),
    "exec": lambda x: exec("x"),
    "os.environ": lambda x: x if "HOME" in os.environ else -x,
    "the environment by another name": lambda x: x if ENVIRONMENT.get("HOME") else -x,
    "getenv": lambda x: x if os.getenv("HOME") else -x,
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_again_is_refused(what: str) -> None:
    with pytest.raises(SideEffectError, match="once, while") as caught:
        pe.kernel(REFUSED[what])(1.0)
    assert caught.value.fix
    assert "test_introspection.py" in caught.value.at.file


@pe.kernel
def factorial(n: Any) -> Any:
    return 1 if n <= 1 else n * factorial(n - 1)


def halved(n: Any) -> Any:
    return n if n < 1.0 else halved(n / 2)


def power(x: Any, n: int) -> Any:
    return 1.0 if n == 0 else x * power(x, n - 1)


@pe.kernel
def even(n: Any) -> Any:
    return odd(n - 1)


@pe.kernel
def odd(n: Any) -> Any:
    return even(n - 1)


@pytest.mark.parametrize("kernel", [factorial, pe.kernel(halved), even])
def test_recursion_of_globals_is_refused(kernel: Any) -> None:
    with pytest.raises(KernelRecursionError, match=r"calls itself(.|\n)*Write a loop"):
        kernel(5)


def test_recursion_that_ends_while_staging() -> None:
    assert pe.kernel(lambda x: power(x, 5))(2.0) == 32.0
