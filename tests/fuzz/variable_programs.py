"""Random programs that choose, with functions that share variables, and what they have to keep.

The oracle is without replay: the program runs from its start once for each row of choices, in
plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fuzz.choices import Choices
from fuzz.sources import load

from peffects import handle, once, run
from peffects.handlers import all_worlds, amb, weak_exceptions

__all__ = ["check_variables", "rows", "variable_program"]

_HEAD = """\
import functools, operator
from peffects import BasicHandler, Effect, Fin, Operation, ParHandler, effectful, handle, pfor
from peffects.handlers import accumulate, catch, throw

def build(flip):
    @effectful
    def calls(f):
        return f()
        yield

    @effectful
    def first(f, *more):
        got = yield from flip()
        return f() + got + sum(g() for g in more)

    @effectful
    def same(c):
        return (yield from c)

    @effectful
    def counted(c):
        return (yield from handle(accumulate(0, operator.add), c))[1]

    @effectful
    def twice(f):
        return sum((yield from pfor(Fin(2), lambda i: first(f, lambda: i))))

    class Twice(Effect): ...

    class Again(Operation[Twice, int]): ...

    class resuming(ParHandler[Twice]):
        def again(self, op, k):
            got = yield from flip()
            return (yield from k(got))

        def traverse(self, n, loop, k):
            return (yield from k((yield from loop())))

    @effectful
    def asks(c):
        return (yield from Again()) + (yield from c) + (yield from Again())

    class Ask(Effect): ...

    class Of(Operation[Ask, int]):
        c: object

    class asking(BasicHandler[Ask]):
        def of(self, op):
            before = yield from flip()
            return before + (yield from op.c)
"""


class _Writer:
    """Writes the body of `program`, which has variables `a` to `c` and nested functions."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.lines: list[str] = []
        self.functions: list[str] = []

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def number(self, names: str = "abc") -> str:
        match self.choices.below(4):
            case 0:
                return str(self.choices.between(1, 3))
            case 1:
                return f"{self.choices.item(names)} + {self.choices.between(1, 3)}"
            case 2:
                return f"3 * {self.choices.item(names)} % 97"
            case _:
                return f"{self.choices.item(names)} + {self.choices.item(names)}"

    def function(self, depth: int) -> None:
        """A nested effectful function that reads, and perhaps binds, variables around it."""
        name = f"f{len(self.functions)}"
        self.line(depth, "@effectful")
        self.line(depth, f"def {name}(d=1):")
        own = self.choices.subset("abc")
        if own:
            self.line(depth + 1, f"nonlocal {', '.join(sorted(own))}")
        self.line(depth + 1, f"x = {self.number()}")
        for _ in range(self.choices.below(4)):
            target = self.choices.item([*own, "x"])
            match self.choices.below(5):
                case 0:
                    self.line(depth + 1, f"{target} = {self.number('abcx')}")
                case 1:
                    self.line(depth + 1, f"{target} = {target} + (yield from flip())")
                case 2:
                    self.line(depth + 1, f"{target} = yield from {self.call('d - 1')}")
                case 3:
                    self.line(depth + 1, f"if d > 0: {target} = yield from {name}(d - 1)")
                case _:
                    thrown = self.number("abcx")
                    self.line(
                        depth + 1, f"yield from throw({thrown}) if x % 5 == 4 else calls(int)"
                    )
        self.line(depth + 1, f"return x + {self.number('abcx')}")
        self.line(depth + 1, "yield")
        self.functions.append(name)

    def call(self, depth: str = "1") -> str:
        """A computation whose answer is a number."""
        forms = [
            "flip()",
            f"first(lambda: {self.number()})",
            f"first(functools.partial(int, {self.number()}), lambda: {self.number()})",
            f"calls(lambda: {self.number()})",
            f"twice(lambda: {self.number()})",
        ]
        if self.functions:
            made = f"{self.choices.item(self.functions)}({depth if depth == '1' else '0'})"
            forms += [
                made,
                f"same({made})",
                f"counted({made})",
                f"catch({made}, lambda e: e + {self.number()})",
                f"handle(asking(), Of({made}))",
                f"handle(resuming(), asks({made}))",
                f"handle(asking(), Of(first(lambda: {self.number()})))",
            ]
        return self.choices.item(forms)

    def statement(self, depth: int) -> None:
        target = self.choices.item("abc")
        match self.choices.below(8):
            case 0:
                self.line(depth, f"{target} = {self.number()}")
            case 1 | 2:
                self.line(depth, f"{target} = yield from {self.call()}")
            case 3:
                self.line(depth, f"{target} += yield from {self.call()}")
            case 4 if depth == 2 and len(self.functions) < 4:
                self.function(depth)
            case 5 if depth < 5:
                self.line(depth, f"for {target} in range({self.choices.between(1, 2)}):")
                self.statement(depth + 1)
            case 6 if depth < 5:
                self.line(depth, f"if {target} % 2:")
                self.statement(depth + 1)
            case _:
                self.line(depth, f"yield from {self.call()}")


def variable_program(choices: Choices) -> str:
    """The text of a module; `build(flip)` gives the program, which calls `flip` to choose."""
    writer = _Writer(choices)
    writer.line(1, "@effectful")
    writer.line(1, "def program():")
    writer.line(2, "a, b, c = 1, 2, 3")
    for _ in range(choices.between(2, 7)):
        writer.statement(2)
    writer.line(2, "return a, b, c")
    writer.line(2, "yield")
    writer.line(1, "return program")
    return _HEAD + "\n" + "\n".join(writer.lines) + "\n"


def rows(run_with: Callable[[Callable[[int], int]], Any]) -> Iterator[Any]:
    """What the program gives for each row of choices, in order, run from its start each time.

    `run_with(choose)` runs it; `choose(n)` is a number below n.
    """
    taken: list[tuple[int, int]] = []
    while True:
        at = 0

        def choose(bound: int) -> int:
            nonlocal at
            if at == len(taken):
                taken.append((0, bound))
            at += 1
            return taken[at - 1][0]

        yield run_with(choose)
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        number, bound = taken.pop()
        taken.append((number + 1, bound))


_MOST_WORLDS = 200


def check_variables(text: str) -> str:
    """The worlds of a program are what it gives when it runs once for each row of choices."""
    build = load(text)["build"]

    def anew(choose: Callable[[int], int]) -> Any:
        return run(handle(weak_exceptions(), build(lambda: once(lambda: choose(2)))()))

    expected = []
    for result in rows(anew):
        expected.append(result)
        if len(expected) > _MOST_WORLDS:
            return "many worlds"
    program = handle(weak_exceptions(), build(lambda: amb([0, 1]))())
    found = run(handle(all_worlds(), program))
    assert found == expected, f"{found} is not {expected}"
    return "one world" if len(expected) == 1 else "worlds"
