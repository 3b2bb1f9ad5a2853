"""Random effectful programs as Python source: `program(s, n, x)` under handlers in any order.

Operations of six effects stand in branches, loops, called functions, scoped operations (`catch`,
`attempt`, `local`, `mask`), inner handlers and parallel loops; one effect and its handlers are a
user's, with fields, and clauses of all kinds.  Values are floats, loops run `n` times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from fuzz.choices import Choices
from fuzz.effect_handlers import ANSWERS, tally_handler, unpacked

__all__ = ["EffectProgram", "effect_program"]

PRELUDE = """\
import operator
import numpy as np
import peffects as pe
from peffects import (
    BasicHandler, CollectHandler, Effect, Err, Fin, Handler, Ok, Operation, ParHandler,
    SplitHandler, effectful, final, handle, mask, pfor, run,
)
from peffects.handlers import (
    Accum, Reader, State, Throw, accum, accumulate, all_worlds, amb, ask, attempt, catch, get,
    local, parallel_worlds, prng, put, reader, run_state, throw, uniform, weak_exceptions,
)

x = np.array([0.1, -0.4, 0.9])

class Tally(Effect): ...
class Bump(Operation[Tally, float]):
    by: float
class Look(Operation[Tally, float]): ...
class Leave(Operation[Tally, None]):
    value: float
class Field(State): ...

def seconds(answers):
    if isinstance(answers, (list, pe.Table)):
        return [v for _, v in answers]
    return pe.table(lambda i: answers[i][1])
def number(r):
    if isinstance(r, (Ok, Err)):
        if isinstance(r, Ok):
            v = number(r.value)
        else:
            v = 0.5 * number(r.error)
    elif isinstance(r, tuple):
        v = 0.0
        for part in r:
            v = 0.7 * v + number(part)
    elif np.ndim(r):
        v = np.sum(np.sin(r))
    else:
        v = r
    return v
"""

EXPRESSIONS = (
    "{a}", "{a} + {b}", "{a} - 0.5 * {b}", "np.sin({a}) + {b}", "max({a}, {b})",
    "({a} if {b} > 0.3 else {b} - 1.0)",
)  # fmt: skip
CONDITIONS = (
    "{a} > 0.2", "{a} < {b}", "{a} > 0.0 and {b} < 0.5", "not {a} > 1.0",
    "(yield from ask()) > {a}", "{a} > (yield from get())", "(yield from Look()) < {a}",
)  # fmt: skip
HANDLERS = {
    "state": "run_state(0.5)",
    "accum": "accumulate(0.0, operator.add)",
    "throw": "weak_exceptions()",
    "reader": "reader(2.0)",
    "field": "run_state(x, at=Field)",
    "random": "prng(1)",
}
"""The handlers of effects of ours; `Field` holds an array."""
FIELDS = (
    "yield from Field.put(0.5 * (yield from Field.get()))",
    "yield from Field.put((yield from Field.get())[::-1])",
    "yield from Field.put(np.roll((yield from Field.get()), 1) + {a})",
    "yield from Field.put(np.concatenate([x[:1], (yield from Field.get())[1:]]))",
    "yield from Field.put(np.where((yield from Field.get()) > {a}, x, {b}))",
    "s = s + np.sum((yield from Field.get()))",
    "s = s - 0.5 * (yield from Field.get())[{place}]",
)

MASKED = {"reader": "Reader", "state": "State", "accum": "Accum", "tally": "Tally"}


@dataclass
class EffectProgram:
    """Text that defines `program`, `kernel` and `total`, a number, of `s`, `n` and `x`."""

    text: str


class Scope:
    """The locals that hold numbers, and what may be used here."""

    def __init__(self, names: Sequence[str], effects: Sequence[str], depth: int) -> None:
        self.names, self.effects, self.depth = list(names), list(effects), depth
        self.in_loop = False

    def deeper(self, effects: Sequence[str] | None = None, names: Sequence[str] = ()) -> Scope:
        """The scope of a block inside."""
        inner = Scope([*self.names, *names], effects or self.effects, self.depth - 1)
        inner.in_loop = self.in_loop
        return inner


def indented(lines: Sequence[str]) -> list[str]:
    """The lines of a block."""
    return [f"    {line}" for line in lines]


class Writer:
    """Writes statements; the functions and handlers that they use are collected."""

    def __init__(self, choices: Choices, tries: bool) -> None:
        self.choices, self.tries = choices, tries
        # A local that a lambda reads and its maker assigns again later has one value for all
        # worlds: which one they see is not promised yet, so lambdas keep that of their making.
        self.own = ", s=s" if tries else ""
        self.definitions: list[str] = []
        self.number = count()

    def atoms(self, scope: Scope) -> tuple[str, str]:
        """Two locals or constants."""
        able = [*scope.names, "0.25", "0.7"]
        return self.choices.item(able), self.choices.item(able)

    def expression(self, scope: Scope) -> str:
        """A number, without effects."""
        a, b = self.atoms(scope)
        return self.choices.item(EXPRESSIONS).format(a=a, b=b)

    def condition(self, scope: Scope) -> str:
        """A condition, which may perform."""
        a, b = self.atoms(scope)
        able = [
            text for text in CONDITIONS
            if all(effect in scope.effects or answer not in text
                   for effect, answer in ANSWERS.items())
        ]  # fmt: skip
        return self.choices.item(able).format(a=a, b=b)

    def performed(self, scope: Scope) -> str:
        """An expression that performs, where there is an effect that answers."""
        able = [ANSWERS[effect] for effect in scope.effects if effect in ANSWERS]
        return self.choices.item([self.expression(scope), *able, *able])

    def block(self, scope: Scope, most: int = 3) -> list[str]:
        """Some statements."""
        lines: list[str] = []
        for _ in range(self.choices.between(1, most)):
            lines += self.statement(scope)
        return lines

    def statement(self, scope: Scope) -> list[str]:
        """One statement, of a kind that is possible here."""
        kinds = ["local", *scope.effects, *scope.effects]
        if "throw" in scope.effects:
            kinds += ["always_throw"]
        if "tally" in scope.effects:
            kinds += ["leave"]
        if scope.depth > 0:
            kinds += ["if", "if", "if", "for", "while", "call", "attempt", "inner", "early"]
            kinds += ["choose", "both", "performing_while", "user_handler", "mask"]
            kinds += ["pfor"] * (1 if {"state", "field"} & {*scope.effects} else 3)
            kinds += ["break", "break"] if scope.in_loop else []
            kinds += ["finally"] * self.tries  # kernels have no `try`
            kinds += ["catch"] * 4 if "throw" in scope.effects else []
            kinds += ["locally"] * 2 if "reader" in scope.effects else []
        kind = self.choices.item(kinds)
        made: list[str] = getattr(self, f"w_{kind}")(scope)
        return made

    # --- simple statements -----------------------------------------------------------------------

    def w_local(self, scope: Scope) -> list[str]:
        """An assignment."""
        return [f"s = {self.expression(scope)}"]

    def w_state(self, scope: Scope) -> list[str]:
        """`get` or `put`."""
        if self.choices.one_in(2):
            return ["s = s - (yield from get())"]
        return [f"yield from put({self.expression(scope)})"]

    def w_accum(self, scope: Scope) -> list[str]:
        """`accum`."""
        return [f"yield from accum({self.expression(scope)})"]

    def w_reader(self, scope: Scope) -> list[str]:
        """`ask`."""
        return ["s = s + (yield from ask())"]

    def w_tally(self, scope: Scope) -> list[str]:
        """An operation of the user's effect."""
        if self.choices.one_in(3):
            return ["s = s * 0.5 + (yield from Look())"]
        return [f"s = yield from Bump({self.expression(scope)})"]

    def w_worlds(self, scope: Scope) -> list[str]:
        """A choice."""
        return [f"s = s + (yield from amb([0.5, {self.expression(scope)}]))"]

    def w_random(self, scope: Scope) -> list[str]:
        """A random number."""
        return ["s = s - (yield from uniform())"]

    def w_leave(self, scope: Scope) -> list[str]:
        """An operation whose clause is final, on one way."""
        return [f"if {self.condition(scope)}:",
                f"    yield from Leave({self.expression(scope)})"]  # fmt: skip

    def w_throw(self, scope: Scope) -> list[str]:
        """A `throw` on one way."""
        return [f"if {self.condition(scope)}:",
                f"    yield from throw({self.expression(scope)})"]  # fmt: skip

    def w_always_throw(self, scope: Scope) -> list[str]:
        """A `throw` on every way."""
        return [f"yield from throw({self.expression(scope)})"]

    # --- control ---------------------------------------------------------------------------------

    def w_if(self, scope: Scope) -> list[str]:
        """An `if`, perhaps with an `else`."""
        lines = [f"if {self.condition(scope)}:", *indented(self.block(scope.deeper()))]
        if self.choices.one_in(2):
            lines += ["else:", *indented(self.block(scope.deeper()))]
        return lines

    def w_for(self, scope: Scope) -> list[str]:
        """A loop of `n` rounds."""
        name = f"i{next(self.number)}"
        inner = scope.deeper(names=[name])
        inner.in_loop = True
        return [f"for {name} in range(n):", *indented(self.block(inner))]

    def w_while(self, scope: Scope) -> list[str]:
        """A `while`, whose counter is used after it."""
        name = f"w{next(self.number)}"
        inner = scope.deeper()
        inner.in_loop = False
        body = [*self.block(inner), f"{name} = {name} + 1"]
        return [f"{name} = 0", f"while {name} < n:", *indented(body), f"s = s + 0.1 * {name}"]

    def w_performing_while(self, scope: Scope) -> list[str]:
        """A `while` whose condition performs, with `break` and `else`."""
        name = f"w{next(self.number)}"
        inner = scope.deeper()
        inner.in_loop = False
        leave = [f"if {self.condition(scope)}:", "    break"] * self.choices.below(2)
        body = [f"{name} = {name} + 1", *leave, *self.block(inner)]
        return [f"{name} = 0", f"while {name} < n and {self.performed(scope)} < 3.0:",
                *indented(body), "else:", f"    s = s - {self.performed(scope)}"]  # fmt: skip

    def w_choose(self, scope: Scope) -> list[str]:
        """Operations inside an expression."""
        test = self.condition(scope)
        one, other = self.performed(scope), self.performed(scope)
        rest = self.performed(scope)
        return [f"s = np.sin({rest}) - (({one}) if {test} else {other}) + {self.performed(scope)}"]

    def w_both(self, scope: Scope) -> list[str]:
        """`and` or `or` whose second operand performs."""
        word = self.choices.item(("and", "or"))
        tests = f"{self.condition(scope)} {word} {self.performed(scope)} > 0.4"
        return [f"if {tests}:", *indented(self.block(scope.deeper()))]

    def w_break(self, scope: Scope) -> list[str]:
        """`break` or `continue`."""
        return [f"if {self.condition(scope)}:",
                f"    {self.choices.item(['break', 'continue'])}"]  # fmt: skip

    def w_early(self, scope: Scope) -> list[str]:
        """An early `return`."""
        return [f"if {self.condition(scope)}:", f"    return {self.expression(scope)}"]

    # --- functions, scoped operations and handlers -----------------------------------------------

    def function(self, effects: Sequence[str], depth: int) -> str:
        """The name of a new effectful function of `s` and `n`."""
        name = f"f{next(self.number)}"
        body = self.block(Scope(["s"], effects, depth))
        tail = "    return s\n    yield"
        self.definitions.append(
            "\n".join(["@effectful", f"def {name}(s, n):", *indented(body), tail])
        )
        return name

    def call(self, scope: Scope, *more: str) -> str:
        """A call of a new function, which may use these effects, too."""
        effects = [*scope.effects, *(effect for effect in more if effect not in scope.effects)]
        name = self.function(effects, scope.depth - 1)
        return f"{name}({self.expression(scope)}, n)"

    def w_call(self, scope: Scope) -> list[str]:
        """A call."""
        return [f"s = yield from {self.call(scope)}"]

    def w_attempt(self, scope: Scope) -> list[str]:
        """A call whose error becomes a value."""
        call = f"r = yield from attempt({self.call(scope, 'throw')})"
        return [call, "if isinstance(r, Ok):", "    s = r.value", "else:", "    s = r.error - 0.5"]

    def w_catch(self, scope: Scope) -> list[str]:
        """A scoped `catch`; what it does with the error may perform, and throw again."""
        call = self.call(scope)
        recover = self.choices.item(("0.0", "e + s", "{f}"))
        if recover == "{f}":
            recover = f"{self.function(scope.effects, scope.depth - 1)}(e, n)"
        return [f"s = yield from catch({call}, lambda e{self.own}: {recover})"]

    def w_locally(self, scope: Scope) -> list[str]:
        """A call under another environment."""
        return [f"s = yield from local(lambda v{self.own}: v * 0.5 + {self.expression(scope)}, "
                f"{self.call(scope)})"]  # fmt: skip

    def w_inner(self, scope: Scope) -> list[str]:
        """A call under a standard handler of its own."""
        effect = self.choices.item(("accum", "state", "reader", "random"))
        call = f"handle({HANDLERS[effect]}, {self.call(scope, effect)})"
        if effect in ("reader", "random"):
            return [f"s = yield from {call}"]
        return [f"t, s = yield from {call}", "s = s + 0.5 * t"]

    def w_mask(self, scope: Scope) -> list[str]:
        """A call that skips the handler inside which it runs."""
        able = [effect for effect in scope.effects if effect in MASKED]
        if not able:
            return self.w_local(scope)
        effect = self.choices.item(able)
        kind, which = MASKED[effect], 0 if effect == "reader" else 1
        handler = HANDLERS.get(effect)
        if effect == "tally":
            made, which = self.user_handler(scope.effects)
            handler = f"{made}({self.expression(scope)})"
        name = self.function(scope.effects, scope.depth - 1)
        outer = f"f{next(self.number)}"
        first = self.block(Scope(["s"], scope.effects, 0), most=1)
        last = self.block(Scope(["s"], scope.effects, 0), most=1)
        body = [*first, f"s = yield from mask({kind}, {name}(s, n))", *last, "return s"]
        self.definitions.append("\n".join(["@effectful", f"def {outer}(s, n):", *indented(body)]))
        call = f"handle({handler}, {outer}({self.expression(scope)}, n))"
        return [f"r = yield from {call}", *unpacked(which)]

    def w_pfor(self, scope: Scope) -> list[str]:
        """A parallel loop."""
        name = self.function(scope.effects, scope.depth - 1)
        n = self.choices.item(("3", "3", "n"))
        p = f"p{next(self.number)}"
        last = [f"for v in {p}:", "    s = s + v"] if n == "n" else [f"s = {p}[0] - {p}[2]"]
        body = f"lambda i{self.own}: {name}(x[int(i) % 3] + s, n)"
        return [f"{p} = yield from pfor(Fin({n}), {body})", *last]

    def w_field(self, scope: Scope) -> list[str]:
        """An operation of a state that is an array."""
        a, b = self.atoms(scope)
        line = self.choices.item(FIELDS)
        return [line.format(a=a, b=b, place=self.choices.item(("0", "2", "n % 3", "-1")))]

    def w_finally(self, scope: Scope) -> list[str]:
        """Something that is done on every way out."""
        return ["try:", *indented(self.block(scope.deeper())),
                "finally:", *indented(self.block(scope.deeper(), most=1))]  # fmt: skip

    def w_user_handler(self, scope: Scope) -> list[str]:
        """A call under a handler of the user's."""
        name, answer = self.user_handler(scope.effects)
        call = self.call(scope, "tally")
        lines = [f"r = yield from handle({name}({self.expression(scope)}), {call})"]
        return [*lines, *unpacked(answer)]

    def user_handler(self, outside: Sequence[str], inside: Sequence[str] = ()) -> tuple[str, int]:
        """The name of a new handler of `Tally`, and which kind of answer it gives."""
        name = f"tallies{next(self.number)}"
        number = {*inside} <= {"reader", "random"}
        text, which = tally_handler(self.choices, name, outside, number)
        self.definitions.append(text)
        return name, which


def effect_program(choices: Choices, worlds: bool = False) -> EffectProgram:
    """A program: `program(s, n, x)` gives a computation whose effects are all handled."""
    able = [*HANDLERS, "tally", "tally", choices.item([*HANDLERS])] + ["worlds"] * worlds
    order = choices.subset(able) or ["throw"]
    writer = Writer(choices, worlds)
    terms: list[str] = []
    for place, effect in enumerate(order):
        if effect == "tally":
            terms.append(f"{writer.user_handler(order[:place], order[place + 1 :])[0]}(0.5)")
        elif effect == "worlds":
            terms.append(choices.item(("all_worlds()", "parallel_worlds()")))
        else:
            terms.append(HANDLERS[effect])
    body = writer.block(Scope(["s"], [*dict.fromkeys(order)], 3), most=4)
    lines = ["@effectful", "def main(s, n, x):", *indented(body), "    return s", "    yield"]
    term = "main(s, n, x)"
    for handler in reversed(terms):
        term = f"handle({handler}, {term})"
    source = "\n".join(
        [
            *writer.definitions,
            *lines,
            "def program(s, n, x):",
            f"    return {term}",
            "def kernel(s, n, x):",
            "    return pe.run(program(s, n, x))",
            "def total(s, n, x):",
            "    return number(pe.run(program(s, n, x)))",
            "",
        ]
    )
    return EffectProgram(PRELUDE + source)
