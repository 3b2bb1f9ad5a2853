"""Rewritten functions: on ordinary values they are the originals, and they keep their places."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from staged import run

from peffects.function_trees import find_source
from peffects.staging.hooks.hooks import Hooks
from peffects.staging.rewriting.rewritten import is_rewritten, rewritten


def rewrite(function: Any) -> FunctionType:
    """The rewritten function; it must have been rewritten."""
    new = rewritten(function, Hooks(function))
    assert is_rewritten(new)
    return new


def outcome(function: Callable[..., Any], *args: Any) -> tuple[str, Any]:
    try:
        return "value", function(*args)
    except (ArithmeticError, LookupError, NameError, TypeError) as error:
        return type(error).__name__, str(error)


# --- programs made by Hypothesis -----------------------------------------------------------------

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 1) -> str:
    """An expression of integers."""
    if depth == 0:
        return draw(names | st.integers(-3, 3).map(lambda n: f"({n})"))
    inner = expressions(depth - 1)
    x, y, z = draw(inner), draw(inner), draw(inner)
    operator = draw(st.sampled_from(["+", "-", "*", "//", "%", "and", "or", "<", "==", "&"]))
    forms = [
        f"({x} {operator} {y})", f"({x} if {y} else {z})", f"(not {x})", f"({x} < {y} <= {z})",
        f"max({x}, {y})", f"[{x}, {y}][{z} % 2]", f"sum([k + {x} for k in range(3)])",
        f"(lambda v, w={y}: v - w)({x})", f"abs({x})", f"({{'k': {x}}})['k']",
    ]  # fmt: skip
    return draw(st.sampled_from(forms))


@st.composite
def blocks(draw: st.DrawFn, depth: int, in_loop: bool) -> list[str]:
    """Statements that end, whatever the values are."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, in_loop))
    return lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def statements(draw: st.DrawFn, depth: int, in_loop: bool) -> list[str]:
    """One statement, as lines."""
    simple = ["assign", "augment", "unpack", "return", "list", "delete", "attribute"]
    kind = draw(
        st.sampled_from(simple + ["break"] * in_loop + ["if", "for", "while", "def"] * (depth > 0))
    )
    name, x, y = draw(names), draw(expressions()), draw(expressions())
    if kind == "assign":
        return [f"{name} = {x}"]
    if kind == "augment":
        return [f"{name} += {x}"]
    if kind == "unpack":
        return [f"{name}, *rest = {x}, {y}"]
    if kind == "list":
        return [f"log.append({x})", "log[0] += 1"]
    if kind == "attribute":
        return [f"box.value = {x}", f"box.value -= {name}"]
    if kind == "delete":
        return [f"{name}: int = {x}", "extra = 1", "del extra"]
    if kind == "return":
        return [f"if {x}: return {y}"]
    if kind == "break":
        return [f"if {x}: {draw(st.sampled_from(['break', 'continue']))}"]
    body = indented(draw(blocks(depth - 1, in_loop or kind != "if")))
    if kind == "if":
        return [f"if {x}:", *body, "else:", *indented(draw(blocks(depth - 1, in_loop)))]
    if kind == "for":
        return [f"for {name} in range(3):", *body, "else:", f"    {name} = {y}"]
    if kind == "while":
        n = f"n{depth}"  # nested loops count by themselves
        return [f"{n} = 0", f"while {n} < 3 and {x}:", f"    {n} += 1", *body]
    return [
        "def inner(a, b=1):",
        *indented(draw(blocks(depth - 1, False))),
        f"{name} = inner({x}) or 0",
    ]


@st.composite
def functions(draw: st.DrawFn) -> str:
    body = ["rest = None", *draw(blocks(2, False)), f"return a, b, c, {draw(expressions())}"]
    return "\n".join(["def program(a, b, c, log, box):", *indented(body)]) + "\n"


class Box:
    value = 0


def compiled(source: str) -> Any:
    file = f"<program {hash(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), space)
    return space["program"]


small = st.integers(-4, 4)


@settings(max_examples=60)
@given(source=functions(), args=st.tuples(small, small, small))
def test_rewritten_function_is_the_original_on_ordinary_values(
    source: str, args: tuple[int, int, int]
) -> None:
    original = compiled(source)
    outcomes = []
    for function in (original, rewrite(original)):
        log, box = [0], Box()
        outcomes.append((outcome(function, *args, log, box), log, box.value))
    assert outcomes[0] == outcomes[1]


# --- what is kept --------------------------------------------------------------------------------

LEVEL = 3


class Base:
    def __init__(self) -> None:
        self.__secret = 7

    def doubled(self, x: int) -> int:
        return 2 * x


class Derived(Base):
    def doubled(self, x: int) -> int:
        return super().doubled(x) + 1

    def secret(self) -> int:
        return self._Base__secret  # type: ignore[attr-defined, no-any-return]

    def own_secret(self) -> int:
        self.__own = 8
        self.__own += 1
        return self.__own


def test_methods_keep_super_and_private_names() -> None:
    derived = Derived()
    assert rewrite(Derived.doubled)(derived, 4) == 9
    assert rewrite(Derived.secret)(derived) == 7
    assert rewrite(Derived.own_secret)(derived) == 9


def test_closures_keep_their_cells() -> None:
    count = 0

    def count_up() -> int:
        return count + LEVEL

    new = rewrite(count_up)
    count = 5
    assert new() == 8


def test_defaults_and_annotations_are_those_of_the_original() -> None:
    marker = object()

    def function(x: Any = marker, *, y: NotThere = 2) -> NotThere:  # type: ignore[name-defined]  # noqa: F821
        return x, y

    new = rewrite(function)
    assert new() == (marker, 2)
    assert new.__name__ == "function" and new.__qualname__ == function.__qualname__


def test_functions_in_it_keep_their_names() -> None:
    def function() -> Any:
        def inner() -> Any: ...

        return inner

    assert rewrite(function)().__qualname__ == function().__qualname__


def test_statements_of_other_kinds_stay() -> None:
    def other(x: Any) -> Any:
        found: list[Any] = []
        try:
            with open(__file__) as file:
                found.append(file.readline() != "")
            1 / x
        except ZeroDivisionError as error:
            found.append(type(error))
        finally:
            found.append("end")
        match x:
            case 0 | 1 as small if small < 5:
                found.append(small)
            case _:
                found.append("large")
        if (y := x + 1) > 1 and (z := y) > 2:
            found.append(z)
        while (y := y - 1) > 0:
            found.append(y)
        found[0:1] = [x]
        a, found[0] = 1, [*found[1:], f"{a_global_name(x)!r:>3}"]
        return found, {k: v for k, v in enumerate("ab")}, a

    for x in (0, 1, 3):
        assert rewrite(other)(x) == other(x)


def a_global_name(x: Any) -> Any:
    return x


def test_generators_stay_generators() -> None:
    def pairs(n: int) -> Any:
        for k in range(n):
            if k % 2:
                got = yield k
                if got:
                    return got
        yield from (10, 11)

    assert list(rewrite(pairs)(4)) == list(pairs(4))


def test_tracebacks_show_the_user_s_lines() -> None:
    def failing(x: Any) -> Any:
        for k in [x]:
            if k:
                return (
                    1 / (k - k)  # this line
                )
        return 0

    with pytest.raises(ZeroDivisionError) as original:
        failing(1)
    with pytest.raises(ZeroDivisionError) as caught:
        rewrite(failing)(1)
    lines = [
        [frame.lineno for frame in traceback.extract_tb(error.tb) if frame.filename == __file__][-1]
        for error in (original, caught)
    ]
    assert lines[0] == lines[1]


def test_sources_of_lambdas_are_found_by_their_place() -> None:
    pair = (lambda x: x + 1, lambda x: x + 2)
    kept: list[Any] = [
        lambda x: lambda x: x,
        lambda x: (
            x,
            x,
        ),
    ]
    for function in (*pair, *kept, kept[0](1)):
        source = find_source(function.__code__)
        assert source is not None
        assert rewrite(function)(5) == function(5) or callable(function(5))
    assert [rewrite(f)(1) for f in pair] == [2, 3]


def test_functions_without_source_stay() -> None:
    space: dict[str, Any] = {}
    exec("def f(x): return x", space)
    assert rewritten(space["f"], None) is space["f"]


def _depth(tree: Any) -> Any:
    return max([_depth(part) for part in tree], default=0) + 1


def test_a_global_function_may_call_itself_on_what_is_known_while_staging() -> None:
    assert run(lambda x: x * _depth(((), ((),))), 2.0) == 6.0
