"""A builtin that is called wrongly in a kernel says what it says in Python."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import ControlFlowError, PeffectsError

BUILTINS = ("max", "min", "sum", "any", "all", "int", "float", "round", "len", "range", "reversed",
            "enumerate", "sorted", "isinstance", "abs", "divmod", "pow")  # fmt: skip


def kernel_of(line: str) -> pe.Kernel[Any, Any]:
    """The kernel of `x` with this line, which can be found."""
    source = f"def f(x):\n    {line}\n"
    file = f"<kernel {hash(source):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"pe": pe, "np": np}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return pe.kernel(space["f"])


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.parametrize("way", ["__call__", "debug"])
def test_a_wrong_call_is_told_in_words_of_python(name: str, way: str) -> None:
    arguments = "1, nope=2" if name in ("int", "float") else ""
    with pytest.raises(TypeError) as told:
        getattr(kernel_of(f"return {name}({arguments})"), way)(np.ones(3))
    assert name in str(told.value)
    assert f"_{name}" not in str(told.value)


STATEMENTS = {
    "with x: return 1": ("PE205", "`with` is given the table `x`, which is no context manager"),
    "with x[0] as y: return 1": ("PE205", "`with` is given the value"),
    "with np.errstate(), x: return 1": ("PE205", "`with` is given the table `x`"),
    "x.a = 1": ("PE205", "the attribute `a` of the table `x` is changed"),
    "del x.a": ("PE205", "the attribute `a` of the table `x` is changed"),
    "x.a += 1": ("PE205", "a table of a kernel has no attribute `a`"),
    "return x[0] + x[0].__class__": ("PE205", "an operand is the type <class 'numpy.float64'>"),
    "return next(x)": ("PE205", "a symbol is not an iterator"),
    "return bytes(x)": ("PE205", "cannot convert a symbol to bytes"),
    "return range(int(x[0]))": ("PE205", "the kernel returns <a range whose length"),
    "return pe.par(x)": ("PE205", "the kernel returns <pe.par(...)>"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_wrong_statement_is_told_without_names_of_ours(statement: str) -> None:
    code, words = STATEMENTS[statement]
    with pytest.raises(PeffectsError) as told:
        kernel_of(statement)(np.ones(3))
    assert told.value.code == code
    assert words in str(told.value)
    assert "Tracer" not in str(told.value)


def raises_a_symbol(x: Any) -> Any:
    if len(x.shape) > 1:
        return x
    raise ValueError("wrong", [x[0]])  # here


def raises_a_text(x: Any) -> Any:
    raise ValueError("wrong")


def test_an_exception_with_a_symbol_in_it_can_be_printed() -> None:
    with pytest.raises(ControlFlowError, match="`ValueError` is raised with a value") as told:
        pe.kernel(raises_a_symbol)(np.ones(3))
    assert "# here" in told.value.at.snippet()
    assert "pe.check" in str(told.value)
    with pytest.raises(ValueError, match=r"^wrong$"):
        pe.kernel(raises_a_text)(np.ones(3))
