"""Locals that are dead where ways of control flow meet: one name for tables of different sizes."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.sources import check_equal, load
from hypothesis import given
from hypothesis import strategies as st

import peffects as pe
from peffects import effectful, handle, run
from peffects.errors import IndexSetMismatchError, MergeError
from peffects.handlers import get, put, run_state, throw, weak_exceptions
from peffects.ir.evaluate import evaluate
from peffects.staging.rewriting.liveness import live_where_ways_meet

X = np.array([0.1, 0.2, 0.3])


def live(text: str) -> dict[int, set[str]]:
    """For the line of each `if` and loop, what is live there."""
    body = ast.parse(textwrap.dedent(text)).body
    return {node.lineno: set(names) for node, names in live_where_ways_meet(body).items()}


# --- what is live ---------------------------------------------------------------------------------


def test_what_is_read_after_an_if_is_live() -> None:
    assert live("if c:\n    p = 1\nelse:\n    p, q = 2, 3\nr = p") == {1: {"p"}}


def test_what_every_way_assigns_before_a_read_is_dead() -> None:
    assert live("if c:\n    p = 1\nif d:\n    p = 2\nelse:\n    p = 3\nreturn p") == {
        1: {"d"},
        3: {"p"},
    }


def test_one_side_that_reads_is_enough() -> None:
    assert live("if c:\n    p = 1\nif d:\n    p = 2\nelse:\n    pass\nreturn p")[1] == {"d", "p"}


def test_a_round_hands_on_what_the_next_one_or_the_rest_reads() -> None:
    assert live("for i in xs:\n    p = i\n    s = s + p") == {1: {"s"}}
    assert live("for i in xs:\n    s = s + p\n    p = i") == {1: {"s", "p"}}
    assert live("for i in xs:\n    p = i\nreturn p") == {1: {"p"}}
    assert live("while k < n:\n    p = k\n    k = k + p") == {1: {"k", "n"}}


def test_a_loop_in_a_loop_sees_the_next_round_of_both() -> None:
    text = "for i in xs:\n    for j in ys:\n        a = b\n        b = j\n    c = b\n    d = c"
    assert live(text) == {1: {"b", "ys"}, 2: {"b", "ys"}}


def test_jumps_lead_to_what_follows_them() -> None:
    text = "for i in xs:\n    if c:\n        p = 1\n        break\n    p = 2\n    q = p\nreturn {}"
    assert "p" not in live(text.format(0))[1]
    assert "p" in live(text.format("p"))[1]
    text = "for i in xs:\n    r = p\n    if c:\n        p = 1\n        continue\n    p = 2"
    assert live(text)[3] == {"p", "c"} - {"p"}
    assert "p" in live(text)[1]


def test_a_function_in_a_call_reads_there_and_others_at_any_time() -> None:
    assert "p" not in live("if c:\n    p = 1\np = 2\ns = f(lambda i: p)")[1]
    assert "p" in live("g = lambda i: p\nif c:\n    p = 1\np = 2\ns = g(0)")[2]
    assert "p" in live("def g(i):\n    return p\nif c:\n    p = 1\np = 2\ns = g(0)")[3]
    assert "p" in live("if c:\n    p = 1\np = 2\nfs.append((lambda: p, 0))")[1]
    assert "p" in live("if c:\n    p = 1\np = 2\ns = locals()")[1]


def test_a_statement_that_may_be_left_anywhere_keeps_what_it_reads() -> None:
    text = "try:\n    if c:\n        p = 1\n    p = 2\nexcept E:\n    s = p"
    assert "p" in live(text)[2]


# --- kernels --------------------------------------------------------------------------------------


def reused_in_a_fold(x: Any, n: int) -> Any:
    s = 0.0
    p = pe.table(lambda i: 1.0, over=n)
    for _ in range(n):
        p = pe.table(lambda i: x[i] + s, over=3)  # noqa: B023
        s = p[0] + pe.sum(lambda i: p[i])  # noqa: B023
    return s


def reused_in_a_while(x: Any, n: int) -> Any:
    s, k = 0.0, 0
    p = pe.table(lambda i: 1.0, over=n)
    while k < n:
        p = pe.table(lambda i: x[i] + s, over=3)  # noqa: B023
        s, k = s + p[2], k + 1
    return s


def on_both_sides(x: Any, n: int) -> Any:
    if n > 2:
        p = pe.table(lambda i: x[i], over=3)
        s = p[0]
    else:
        p = pe.table(lambda i: 1.0, over=n)
        s = pe.sum(p)
    return s


def on_one_side(x: Any, n: int) -> Any:
    p = pe.table(lambda i: 1.0, over=4)
    s = p[3]
    if n > 2:
        p = pe.table(lambda i: 1.0, over=5)
        s = s + p[4]
    return s


def in_containers(x: Any, n: int) -> Any:
    s = 0.0
    q = (pe.table(lambda i: 1.0, over=n), 0.0)
    for _ in range(n):
        q = (x, s)
        s = q[0][0] + q[1]
    return s


def in_nested_loops(x: Any, n: int) -> Any:
    s = 0.1
    for _ in range(n):
        p = pe.table(lambda i: 1.0, over=n)
        for _ in range(n):
            p = x * s
            if p[0] > 0.015:
                p = pe.table(lambda i: 1.0, over=n)
                s = s + 0.1 * p[0]
            p = pe.table(lambda i: 1.0, over=2)
            s = s + 0.1 * p[1]
    return s


def states(x: Any, n: int) -> Any:
    m = pe.state(x)
    s = 0.0
    for k in range(n):
        m = pe.state(pe.table(lambda i, k=k: 0.5 * k, over=n))
        m[0] = 1.0
        s = s + pe.sum(m.get())
    return s


def early(x: Any, n: int) -> Any:
    s = 0.0
    p = pe.table(lambda i: 1.0, over=4)
    for k in range(n):
        if k > 2:
            p = pe.table(lambda i: 1.0, over=5)
            return p[4]
        p = pe.table(lambda i: 1.0, over=2)
        s = s + p[0]
    return s


@effectful
def thrown(x: Any, n: int) -> Any:
    p = pe.table(lambda i: 1.0, over=n)
    s = 0.0
    for _ in range(n):
        p = pe.table(lambda i: x[i] + s, over=3)  # noqa: B023
        s = p[0]
        if s > 0.3:
            yield from throw(s)
    if n > 2:
        p = pe.table(lambda i: x[i] + s, over=3)
    else:
        p = pe.table(lambda i: 1.0, over=2)
        yield from throw(p[1])
        p = x
    return s + p[0]


def under_throw(x: Any, n: int) -> Any:
    return run(handle(weak_exceptions(), thrown(x, n)))


@effectful
def stored(x: Any, n: int) -> Any:
    p = pe.table(lambda i: 1.0, over=n)
    s: float = yield from get()
    while s < 0.3:
        p = pe.table(lambda i: x[i] + s, over=3)  # noqa: B023
        s = s + p[0]
        yield from put(s)
    return s


def under_state(x: Any, n: int) -> Any:
    return run(handle(run_state(0.0), stored(x, n)))


KERNELS = [reused_in_a_fold, reused_in_a_while, on_both_sides, on_one_side, in_containers,
           in_nested_loops, states, early, under_throw, under_state]  # fmt: skip


@pytest.mark.parametrize("function", KERNELS)
def test_a_dead_table_may_have_another_size(function: Callable[..., Any]) -> None:
    kernel = pe.kernel(function)
    for n in (1, 2, 3, 5):
        check_equal(kernel(X, n), kernel.debug(X, n), 1e-14)


def test_a_table_that_is_read_keeps_its_size() -> None:
    @pe.kernel
    def kernel(x: Any, n: int) -> Any:
        p = pe.table(lambda i: 1.0, over=n)
        for _ in range(n):
            p = pe.table(lambda i: x[i], over=3)
        return p[0]

    assert kernel(X, 3) == 0.1
    with pytest.raises(IndexSetMismatchError):
        kernel(X, 2)


def test_a_function_that_its_callee_keeps_does_not_read_another_table() -> None:
    @pe.kernel
    def kernel(x: Any, n: int) -> Any:
        kept: list[Any] = []
        p: Any = pe.table(lambda i: 1.0, over=n)
        kept.append(lambda: p[0])
        if n > 2:
            p = pe.table(lambda i: x[i], over=3)
        s = kept[0]()
        p = x
        return s + p[0]

    with pytest.raises(MergeError, match="of other sizes on the other side"):
        kernel(X, 5)


# --- generated programs ---------------------------------------------------------------------------

SIMPLE = ("p = pe.table(lambda i: x[i] + s, over=3)", "p = pe.table(lambda i: 0.5 * s, over=n)",
          "p, q = q, p", "q = p", "q = pe.table(lambda i: 0.25 - s, over=n)", "p = x",
          "s = pe.tanh(s + p[0])", "s = pe.tanh(s + pe.sum(lambda i: q[i]))")  # fmt: skip
HEADS = ("if s > 0.2:", "for r in range(n):", "while k{depth} < n:")


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def statements(draw: st.DrawFn, depth: int = 2, loop: bool = False) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        if depth == 0 or draw(st.booleans()):
            lines.append(draw(st.sampled_from(SIMPLE)))
            continue
        head = draw(st.sampled_from(HEADS))
        inside = loop or head != HEADS[0]
        body = draw(statements(depth - 1, inside))
        if loop and draw(st.booleans()):
            body = [*body, draw(st.sampled_from(["break", "continue"]))]
        if head == HEADS[2]:
            lines, body = [*lines, f"k{depth} = 0"], [f"k{depth} += 1", *body]
        lines += [head.format(depth=depth), *indented(body)]
        if head == HEADS[0] and draw(st.booleans()):
            lines += ["else:", *indented(draw(statements(depth - 1, loop)))]
    return lines


@given(statements())
def test_random_programs_mean_what_they_mean_in_python(lines: list[str]) -> None:
    start = ["s = 0.1", "p = pe.table(lambda i: 0.3, over=n)", "q = x"]
    body = indented([*start, *lines, "return s"])
    text = "\n".join(["import peffects as pe", "def kernel(x, n):", *body])
    kernel = pe.kernel(load(text)["kernel"])
    staged: Any = kernel.stage((X, 3), {})
    for n in (3, 2):  # whether the two sizes agree or not
        try:
            found = staged.results(evaluate(staged.program, staged.arguments((X, n), {})))
        except IndexSetMismatchError:
            assert n == 2, "a table is read after it, an `if` or a loop makes the sizes one"
        else:
            np.testing.assert_allclose(found, kernel.debug(X, n), rtol=1e-12)
