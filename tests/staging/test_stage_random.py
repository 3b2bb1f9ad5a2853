"""Programs that Hypothesis makes: what is staged computes what Python computes."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from staged import pe, run

names = st.sampled_from(("a", "b", "c"))
constants = st.sampled_from(("0.5", "1.0", "-2.0", "3.0"))
FORMS = (
    "({x} + {y})", "({x} - {y})", "0.5 * ({x}) * pe.tanh({y})", "max({x}, {y})", "abs({x})",
    "({x} if {x} < {y} else {y})", "({x} if {x} < 1 and not {y} > 0 else 1.0)",
    "pe.sum(lambda i: v[i] * {x})", "(lambda t: t if t > 0 else -t)({x})", "v[int(k) % 3]",
    "pe.max(lambda i: v[i] if v[i] > {x} else {y})",
)  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    """An expression of floats that stay small."""
    if depth == 0:
        return draw(names | constants)
    x, y = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return draw(st.sampled_from(FORMS)).format(x=x, y=y)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def blocks(draw: st.DrawFn, depth: int, inside: bool) -> list[str]:
    """Statements; `return` only outside loops."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["assign", "augment", "swap", "accumulate"]
        kinds += ["if", "for", "while"] * (depth > 0) + ["return"] * (not inside)
        lines += draw(statements(draw(st.sampled_from(kinds)), depth, inside))
    return lines


@st.composite
def statements(draw: st.DrawFn, kind: str, depth: int, inside: bool) -> list[str]:
    """One statement of a kind, as lines."""
    name, x, y = draw(names), draw(expressions()), draw(expressions(1))
    if kind == "assign":
        return [f"{name} = {x}"]
    if kind == "augment":
        return [f"{name} {draw(st.sampled_from(['+=', '-=']))} {x}"]
    if kind == "swap":
        return ["a, b = b, a"]
    if kind == "accumulate":
        return [f"total += {x}"]
    if kind == "return":
        return [f"if {x} < {y}:", f"    return {y}, a, b, total"]
    if kind == "if":
        body, orelse = draw(blocks(depth - 1, inside)), draw(blocks(depth - 1, inside))
        return [f"if {x} < {y}:", *indented(body), "else:", *indented(orelse)]
    body = indented(draw(blocks(depth - 1, True)))
    if kind == "for":
        trips = draw(st.sampled_from(["n", "2", "n + 1", "1, n"]))
        return [f"for k in range({trips}):", *body, "k = 1"]
    return ["k = 0", f"while k < 2 and {x} < 5:", *body, "    k += 1"]


@st.composite
def functions(draw: st.DrawFn) -> str:
    body = ["k = 1", "total = accumulator()", *draw(blocks(2, False)), "return a, b, c, total"]
    return "\n".join(["def program(v, n, a, b, c):", *indented(body)]) + "\n"


class PlainLoops:
    """The operations of `pe` that the programs use, in Python."""

    tanh = staticmethod(pe.tanh)

    @staticmethod
    def sum(function: Any) -> Any:
        return sum(function(i) for i in range(3))

    @staticmethod
    def max(function: Any) -> Any:
        return max(function(i) for i in range(3))


def compiled(source: str, space: dict[str, Any]) -> Any:
    file = f"<staged {hash(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    exec(compile(source, file, "exec"), space)
    return space["program"]


small = st.sampled_from((-2.0, -0.5, 0.0, 0.75, 3.0))


@settings(max_examples=60)
@given(source=functions(), n=st.integers(0, 3), args=st.tuples(small, small, small))
def test_staged_program_is_python_s(source: str, n: int, args: tuple[float, float, float]) -> None:
    v = [0.5, -1.0, 2.0]
    plain = compiled(source, {"pe": PlainLoops, "accumulator": lambda: 0.0})
    kernel = compiled(source, {"pe": pe, "accumulator": pe.accumulator})
    expected = plain(v, n, *args)
    found = run(kernel, np.array(v), n, *args)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
