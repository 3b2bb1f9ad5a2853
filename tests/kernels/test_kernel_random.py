"""Random kernels as users write them: compiled code equals the evaluator; gradients are right.

A kernel is drawn as Python source (nested tables, sums and maxima, accumulators, branches, `range`
loops) and lives in a module of its own.  Values stay small, so that tolerances can be tight.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import peffects as pe
from peffects.ir.evaluate import evaluate
from peffects.kernels.kernel import Kernel
from peffects.staging.structures.trees import flatten

COMBINE = (
    "({x} + {y})", "({x} - {y})", "0.5 * {x} * pe.tanh({y})", "pe.sin({x} + {y})", "max({x}, {y})",
    "({x} if {y} > 0.1 else 0.5 * {x})", "{x} / (2.0 + pe.cos({y}))",
)  # fmt: skip
REDUCE = ("pe.sum(lambda {i}: {e})", "pe.max(lambda {i}: {e})", "pe.mean(lambda {i}: {e})")


class Scope:
    """What an expression may mention: scalars, and elements of tables at the indices around it."""

    def __init__(self, scalars: list[str], tables: list[str]) -> None:
        self.scalars, self.tables = scalars, tables
        self.rows: list[str] = []
        self.columns: list[str] = []

    def inside(self, row: str = "", column: str = "") -> Scope:
        inner = Scope(self.scalars, self.tables)
        inner.rows = self.rows + [row] * bool(row)
        inner.columns = self.columns + [column] * bool(column)
        return inner

    def leaves(self) -> list[str]:
        """Elements, more often than scalars and constants."""
        elements = [f"{table}[{i}]" for table in self.tables for i in self.rows]
        elements += [f"y[{j}]" for j in self.columns]
        elements += [f"a[{i}, {j}]" for i in self.rows for j in self.columns]
        return 2 * elements + [*self.scalars, "0.25", "-0.5"]


@st.composite
def expressions(draw: st.DrawFn, scope: Scope, depth: int = 2) -> str:
    """An expression of floats."""
    if depth == 0:
        return draw(st.sampled_from(scope.leaves()))
    if draw(st.integers(0, 3)) == 0 and len(scope.rows + scope.columns) < 3:
        by_row = draw(st.booleans())
        name = ("i" if by_row else "j") + str(len(scope.rows + scope.columns))
        inner = scope.inside(row=name) if by_row else scope.inside(column=name)
        table = f"x[{name}]" if by_row else f"y[{name}]"  # says which set it runs over
        body = f"({table} + {draw(expressions(inner, depth - 1))})"
        return draw(st.sampled_from(REDUCE)).format(i=name, e=body)
    x, y = draw(expressions(scope, depth - 1)), draw(expressions(scope, depth - 1))
    return draw(st.sampled_from(COMBINE)).format(x=x, y=y)


KINDS = ("assign", "table", "triangle", "scatter", "gather", "if", "range", "while")


@st.composite
def statements(draw: st.DrawFn, scope: Scope, number: int, kinds: tuple[str, ...]) -> list[str]:
    """A statement that changes `s` or defines a table `t<number>`."""
    inside = scope.inside(row="i")
    kind = draw(st.sampled_from(kinds))
    plain = draw(expressions(scope))
    if kind == "assign":
        return [f"s = pe.tanh(s + {plain})"]
    if kind == "table":
        body = draw(expressions(inside))
        scope.tables.append(f"t{number}")
        return [f"t{number} = pe.table(lambda i: {body}, over=x.index)"]
    if kind == "triangle":
        side = draw(st.sampled_from(("upto", "below", "from_", "above")))
        body = draw(expressions(inside.inside(row="k")))
        rows = f"pe.table(lambda k: pe.tanh({body}), over=i.{side}())"
        scope.tables.append(f"t{number}")
        return [
            f"p{number} = pe.table(lambda i: {rows}, over=x.index)",
            f"t{number} = pe.table(lambda i: pe.sum(lambda k: 0.3 * p{number}[i, k] * x[k]))",
        ]
    if kind in ("scatter", "gather"):
        target, source = ("at[i]", "i") if kind == "scatter" else ("i", "at[i]")
        body = draw(expressions(scope.inside(row=source)))
        scope.tables.append(f"t{number}")
        return [
            f"t{number} = pe.accumulator(x)",
            "for i in pe.par(x):",
            f"    t{number}[{target}] += pe.tanh({body})",
        ]
    if kind == "if":
        other = draw(expressions(scope))
        return ["if s > 0.2:", f"    s = s * {plain}", "else:", f"    s = pe.tanh({other}) - s"]
    if kind == "range":
        return ["for r in range(count):", f"    s = pe.tanh(s + {plain} * x[r])"]
    return ["r = 0", "while r < count:", f"    s = pe.sin(s + {plain})", "    r += 1"]


@st.composite
def kernels(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> str:
    """The source of a kernel that gives a number."""
    scope = Scope(["s", "z"], ["x"])
    lines = ["s = 0.1 * z"]
    for number in range(draw(st.integers(1, 3))):
        lines += draw(statements(scope, number, kinds))
    last = draw(expressions(scope.inside(row="i"), 1))
    lines.append(f"return s + pe.sum(lambda i: x[i] * pe.tanh({last}))")
    return "\n    ".join(["def kernel(x, y, a, at, z, count):", *lines]) + "\n"


def load(source: str) -> Any:
    """The function `kernel` that `source` defines; its lines can be found."""
    file = f"<random kernel {hash(source):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"pe": pe}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space["kernel"]


def arguments(rows: int, columns: int) -> tuple[Any, ...]:
    """Arguments with different numbers in each element."""
    rng = np.random.default_rng(rows * 10 + columns)
    x, y, a = rng.normal(size=rows), rng.normal(size=columns), rng.normal(size=(rows, columns))
    return x, y, a, rng.integers(0, rows, rows), 0.3, min(rows, 3)


SIZES = st.tuples(st.integers(1, 6), st.integers(1, 4))


@settings(max_examples=12)
@given(kernels(), st.lists(SIZES, min_size=2, max_size=2))
def test_compiled_code_equals_the_evaluator(source: str, sizes: list[tuple[int, int]]) -> None:
    kernel = Kernel(load(source))
    for rows, columns in sizes:
        args = arguments(rows, columns)
        callee: Any = kernel.stage(args, {})
        values = callee.arguments(args, {})
        assert values is not None
        expected = callee.results(evaluate(callee.program, values))
        np.testing.assert_allclose(kernel(*args), expected, rtol=1e-11, atol=1e-11)
    assert repr(kernel) == "<kernel kernel, 1 specialization>"


def inner(left: Any, right: Any) -> float:
    pairs = zip(flatten(left)[0], flatten(right)[0], strict=True)
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)) for x, y in pairs))


# `while` loops have no derivative, and say so.
@settings(max_examples=12)
@given(kernels(KINDS[:-1]), SIZES)
def test_gradients_equal_forward_mode_and_differences(source: str, size: tuple[int, int]) -> None:
    kernel, args = Kernel(load(source)), arguments(*size)
    rng = np.random.default_rng(1)
    floats = (0, 1, 2, 4)
    tangents = tuple(
        rng.normal(size=np.shape(arg)) if k in floats else arg for k, arg in enumerate(args)
    )
    value, forward = pe.jvp(kernel, args, tangents)
    found, gradient = pe.value_and_grad(kernel, floats)(*args)
    np.testing.assert_allclose([value, found], kernel(*args), rtol=1e-12, atol=1e-12)
    reverse = inner(gradient, tuple(tangents[k] for k in floats))
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)

    def along(step: float) -> float:
        moved = [
            a + step * t if k in floats else a
            for k, (a, t) in enumerate(zip(args, tangents, strict=True))
        ]
        return float(kernel(*moved))

    wide, narrow = ((along(h) - along(-h)) / (2 * h) for h in (2e-6, 1e-6))
    if abs(wide - narrow) < 1e-5 * (1 + abs(narrow)):  # else there is a kink in between
        np.testing.assert_allclose(forward, narrow, rtol=1e-4, atol=1e-4)
