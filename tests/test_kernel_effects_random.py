"""Random effectful programs: staged under their handlers they give what the machine gives.

A program is drawn as Python source: operations of four effects in branches, loops, called
functions, inner handlers and parallel loops.  Every handler order is drawn, too.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from itertools import count, permutations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import peffects as pe
from peffects import Err, Ok
from peffects.ir.check import check_program
from peffects.ir.evaluate import evaluate
from peffects.staging.stage import stage

IMPORTS = """
import operator
from peffects import Err, Fin, Ok, effectful, handle, pfor
from peffects.handlers import (
    accum, accumulate, ask, attempt, get, put, reader, run_state, throw, weak_exceptions
)
"""
HANDLERS = {
    "state": "run_state(0.5)",
    "accum": "accumulate(0.0, operator.add)",
    "throw": "weak_exceptions()",
    "reader": "reader(2.0)",
}
EXPRESSIONS = (
    "{a} + {b}", "{a} - 0.5 * {b}", "np.sin({a}) + {b}", "max({a}, {b})",
    "({a} if {b} > 0.3 else {b} - 1.0)",
)  # fmt: skip
CONDITIONS = (
    "{a} > 0.2", "{a} < {b}", "{a} > 0.0 and {b} < 0.5", "not {a} > 1.0",
    "(yield from ask()) > {a}", "{a} > (yield from get())",
)  # fmt: skip


class Scope:
    """The locals that hold numbers, and what may be used here."""

    def __init__(self, names: Sequence[str], effects: Sequence[str], depth: int) -> None:
        self.names, self.effects, self.depth = list(names), list(effects), depth
        self.in_loop = False

    def deeper(self, effects: Sequence[str] | None = None, names: Sequence[str] = ()) -> Scope:
        inner = Scope([*self.names, *names], effects or self.effects, self.depth - 1)
        inner.in_loop = self.in_loop
        return inner


@st.composite
def expressions(draw: st.DrawFn, scope: Scope) -> str:
    a, b = (draw(st.sampled_from([*scope.names, "0.25", "0.7"])) for _ in range(2))
    return draw(st.sampled_from(EXPRESSIONS)).format(a=a, b=b)


@st.composite
def conditions(draw: st.DrawFn, scope: Scope) -> str:
    a, b = (draw(st.sampled_from([*scope.names, "0.25", "0.7"])) for _ in range(2))
    able = [
        c for c in CONDITIONS
        if ("ask" not in c or "reader" in scope.effects)
        and ("get" not in c or "state" in scope.effects)
    ]  # fmt: skip
    return draw(st.sampled_from(able)).format(a=a, b=b)


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class Writer:
    """Draws statements; the functions that they call are collected."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.functions: list[str] = []
        self.number = count()

    def expression(self, scope: Scope) -> str:
        return self.draw(expressions(scope))

    def block(self, scope: Scope, most: int = 3) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, most))):
            lines += self.statement(scope)
        return lines

    def statement(self, scope: Scope) -> list[str]:
        simple = ["local", *scope.effects, "throw_text"] if scope.effects else ["local"]
        if "throw" not in scope.effects:
            simple = [kind for kind in simple if not kind.startswith("throw")]
        kinds = [*simple, *simple]
        if scope.depth > 0:
            kinds += ["if", "if", "if", "for", "while", "call", "attempt", "total", "early"]
            kinds += ["choose", "both", "performing_while"]
            kinds += [] if "state" in scope.effects else ["pfor"]
            kinds += ["break"] if scope.in_loop else []
        return getattr(self, f"w_{self.draw(st.sampled_from(kinds))}")(scope)  # type: ignore[no-any-return]

    # --- simple statements -----------------------------------------------------------------------

    def w_local(self, scope: Scope) -> list[str]:
        return [f"s = {self.expression(scope)}"]

    def w_state(self, scope: Scope) -> list[str]:
        if self.draw(st.booleans()):
            return ["s = s - (yield from get())"]
        return [f"yield from put({self.expression(scope)})"]

    def w_accum(self, scope: Scope) -> list[str]:
        return [f"yield from accum({self.expression(scope)})"]

    def w_reader(self, scope: Scope) -> list[str]:
        return ["s = s + (yield from ask())"]

    def w_throw(self, scope: Scope) -> list[str]:
        return [
            f"if {self.draw(conditions(scope))}:",
            f"    yield from throw({self.expression(scope)})",
        ]

    def w_throw_text(self, scope: Scope) -> list[str]:
        return [f"yield from throw({self.expression(scope)})"] * self.draw(st.integers(0, 1)) or [
            "pass"
        ]

    # --- control ---------------------------------------------------------------------------------

    def w_if(self, scope: Scope) -> list[str]:
        lines = [f"if {self.draw(conditions(scope))}:", *indented(self.block(scope.deeper()))]
        if self.draw(st.booleans()):
            lines += ["else:", *indented(self.block(scope.deeper()))]
        return lines

    def w_for(self, scope: Scope) -> list[str]:
        name = f"i{next(self.number)}"
        inner = scope.deeper(names=[name])
        inner.in_loop = True
        return [f"for {name} in range(n):", *indented(self.block(inner))]

    def w_while(self, scope: Scope) -> list[str]:
        name = f"w{next(self.number)}"
        inner = scope.deeper()
        inner.in_loop = False
        body = [*self.block(inner), f"{name} = {name} + 1"]
        test = self.draw(conditions(scope))
        return [f"{name} = 0", f"while {name} < n:", *indented(body), f"s = s + 0.1 * {name}",
                f"if {test}:", "    s = 0.3"]  # fmt: skip

    def performed(self, scope: Scope) -> str:
        """An expression that performs, where there is an effect that answers."""
        answers = {"state": "(yield from get())", "reader": "(yield from ask())"}
        able = [answers[effect] for effect in scope.effects if effect in answers]
        return self.draw(st.sampled_from([*able, *able, self.expression(scope)]))

    def w_choose(self, scope: Scope) -> list[str]:
        test = self.draw(conditions(scope))
        one, other = self.performed(scope), self.performed(scope)
        rest = self.performed(scope)
        return [f"s = np.sin({rest}) - (({one}) if {test} else {other}) + {self.performed(scope)}"]

    def w_both(self, scope: Scope) -> list[str]:
        word = self.draw(st.sampled_from(("and", "or")))
        tests = f"{self.draw(conditions(scope))} {word} {self.performed(scope)} > 0.4"
        return [f"if {tests}:", *indented(self.block(scope.deeper()))]

    def w_performing_while(self, scope: Scope) -> list[str]:
        name = f"w{next(self.number)}"
        inner = scope.deeper()
        inner.in_loop = False
        leave = [f"if {self.draw(conditions(scope))}:", "    break"] * self.draw(st.integers(0, 1))
        body = [f"{name} = {name} + 1", *leave, *self.block(inner)]
        return [f"{name} = 0", f"while {name} < n and {self.performed(scope)} < 3.0:",
                *indented(body), "else:", f"    s = s - {self.performed(scope)}"]  # fmt: skip

    def w_break(self, scope: Scope) -> list[str]:
        return [
            f"if {self.draw(conditions(scope))}:",
            f"    {self.draw(st.sampled_from(['break', 'continue']))}",
        ]

    def w_early(self, scope: Scope) -> list[str]:
        return [f"if {self.draw(conditions(scope))}:", f"    return {self.expression(scope)}"]

    # --- functions and handlers ------------------------------------------------------------------

    def function(self, effects: Sequence[str], depth: int) -> str:
        name = f"f{next(self.number)}"
        body = self.block(Scope(["s"], effects, depth))
        tail = "    return s\n    yield"
        self.functions.append(
            "\n".join(["@effectful", f"def {name}(s, n):", *indented(body), tail])
        )
        return name

    def w_call(self, scope: Scope) -> list[str]:
        name = self.function(scope.effects, scope.depth - 1)
        return [f"s = yield from {name}({self.expression(scope)}, n)"]

    def w_attempt(self, scope: Scope) -> list[str]:
        effects = [*scope.effects, "throw"] if "throw" not in scope.effects else scope.effects
        name = self.function(effects, scope.depth - 1)
        call = f"r = yield from attempt({name}({self.expression(scope)}, n))"
        use = ["if isinstance(r, Ok):", "    s = r.value", "else:", "    s = r.error - 0.5"]
        return [call, *use]

    def w_total(self, scope: Scope) -> list[str]:
        effects = [*scope.effects, "accum"] if "accum" not in scope.effects else scope.effects
        name = self.function(effects, scope.depth - 1)
        call = f"{name}({self.expression(scope)}, n)"
        return [f"t, s = yield from handle({HANDLERS['accum']}, {call})", "s = s + 0.5 * t"]

    def w_pfor(self, scope: Scope) -> list[str]:
        name = self.function(scope.effects, scope.depth - 1)
        return [f"p = yield from pfor(Fin(3), lambda i: {name}(x[i] + s, n))", "s = p[0] - p[2]"]


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """The source of `program(s, n, x)` with its handlers, and which these are, outermost first."""
    order = draw(st.sampled_from(list(permutations(HANDLERS))))
    order = order[: draw(st.integers(1, 4))]
    writer = Writer(draw)
    body = writer.block(Scope(["s"], order, 3), most=4)
    lines = ["@effectful", "def main(s, n, x):", *indented(body), "    return s", "    yield"]
    term = "main(s, n, x)"
    for name in reversed(order):
        term = f"handle({HANDLERS[name]}, {term})"
    source = "\n".join(
        [*writer.functions, *lines, "def program(s, n, x):", f"    return {term}", ""]
    )
    return source, order


def load(source: str) -> dict[str, Any]:
    """The names that `source` defines; its lines can be found."""
    file = f"<random effects {hash(source):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np, "x": np.array([0.1, -0.4, 0.9])}
    exec(IMPORTS, space)
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space


def check_equal(found: Any, expected: Any) -> None:
    """The same structure, and numbers that are equal up to rounding."""
    pairs: list[tuple[Any, Any]] = []
    match expected:
        case Ok(value):
            assert isinstance(found, Ok)
            pairs = [(found.value, value)]
        case Err(error):
            assert isinstance(found, Err)
            pairs = [(found.error, error)]
        case tuple():
            pairs = list(zip(found, expected, strict=True))
        case str() | None:
            assert found == expected
        case _:
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    for left, right in pairs:
        check_equal(left, right)


ARGUMENTS = [(0.3, 3), (-0.8, 2), (1.4, 0), (0.05, 4)]


@settings(max_examples=40)
@given(programs())
def test_the_evaluator_gives_what_the_machine_gives(drawn: tuple[str, tuple[str, ...]]) -> None:
    space = load(drawn[0])
    program, x = space["program"], space["x"]

    def staged_run(s: Any, n: Any, x: Any) -> Any:
        return pe.run(program(s, n, x))

    made = stage(staged_run, (*ARGUMENTS[0], x))
    check_program(made.program, "staging")
    for s, n in ARGUMENTS:
        values = made.arguments((s, n, x), {})
        assert values is not None
        check_equal(made.results(evaluate(made.program, values)), pe.run(program(s, n, x)))
