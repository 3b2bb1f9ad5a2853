"""Random handlers of a user's effect as Python source: clauses, return and traverse clauses.

A handler gives one of four kinds of answers, and stands around parallel loops in one of the ways
that there are: not at all, split, collected, or with a traverse clause of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.choices import Choices

__all__ = ["ANSWERS", "tally_handler", "unpacked"]

ANSWERS = {"state": "(yield from get())", "reader": "(yield from ask())",
           "tally": "(yield from Look())"}  # fmt: skip
"""What performs an operation that answers with a number."""

BUMPS = (
    ["def bump(self, op):", "    self.n = self.n + op.by", "    return self.n"],
    ["def bump(self, op):", "    if op.by > 0.2:", "        self.n = self.n + op.by",
     "    return self.n - self.m"],
    ["def bump(self, op):", "    for j in range(2):", "        self.m = self.m * 0.5 + op.by",
     "        if self.m > 0.9:", "            break", "    return self.m"],
    ["def bump(self, op, k):", "    self.n = self.n + op.by", "    return (yield from k(self.n))"],
    ["def bump(self, op, k):", "    v = self.n * 0.5", "    if op.by > 0.1:",
     "        self.n = self.n + 1.0", "        v = v - op.by",
     "    answer = yield from k(v)", "    return answer"],
    ["def bump(self, op, k):", "    answer = yield from k(self.n)", "    self.n = self.n + 1.0",
     "    return {again}"],
    ["def bump(self, op):", "    self.n = self.n + {outer}", "    return self.n"],
    ["def bump(self, op):", "    if op.by > self.n:", "        self.m = {outer}",
     "    return self.n + self.m"],
    ["@final", "def bump(self, op):", "    return {final}"],
    ["def bump(self, op, k):", "    if op.by > 0.6:", "        return {final}",
     "    return (yield from k(0.25))"],
    ["def bump(self, op):", "    while self.n < op.by:", "        self.n = self.n + 0.4",
     "    return self.m if self.n > 0.7 else op.by"],
    ["def bump(self, op):", "    self.n, self.m = self.m, self.n", "    return np.sin(op.by)"],
    ["def bump(self, op, k):", "    yield from k.drop()", "    return {final}"],
    ["def bump(self, op, k):", "    first = yield from k(op.by)",
     "    return (yield from k(self.n))"],
)  # fmt: skip
CALM = (
    ["def bump(self, op):", "    return op.by + 0.5 * self.n"],
    ["def bump(self, op):", "    return {outer} if op.by > 0.2 else self.n"],
    ["def bump(self, op, k):", "    return (yield from k(op.by * self.m))"],
    ["def bump(self, op, k):", "    answer = yield from k(self.n)", "    return {again}"],
)  # fmt: skip
"""Those that leave the state alone."""

RETURNS = (
    ("{x}", "op.by"),
    ("(self.n, {x})", "(self.n, op.by)"),
    ("Ok((self.n, {x}))", "Err(op.by - self.m)"),
    ("{x} + self.n", "op.by * 2.0"),
)
STARTS = ("", "lambda i: self._with(n=0.25)", "lambda i: self._with(n=self.n + 0.5)",
          "lambda i: self._with(n=self.n + 0.5 * int(i), m=0.5)")  # fmt: skip
COLLECTED = ["total = self.n", "for part, _ in answers:", "    total = total + part",
             "self.n = total"]  # fmt: skip
ENDS = (
    "return (yield from k({values}))",
    "return (yield from k({values}))",
    "result = yield from k({values})\nself.m = self.m + 1.0\nreturn result",
    "return {final}",
    "yield from k({values})\nreturn (yield from k({values}))",
)  # fmt: skip


def unpacked(which: int) -> list[str]:
    """Statements that make a number `s` of the answer `r`."""
    return (
        ["s = r"],
        ["s = r[0] - r[1]"],
        ["if isinstance(r, Ok):", "    s = r.value[0] + r.value[1]", "else:", "    s = r.error"],
        ["s = r"],
    )[which]


def tally_handler(
    choices: Choices, name: str, outside: Sequence[str], number: bool
) -> tuple[str, int]:
    """The text of a class, and which kind of answer it gives.

    Only where what stands inside gives a `number` may it compute with that.
    """
    base = choices.item(("Handler", "Handler", "ParHandler", "CollectHandler", "SplitHandler"))
    which = choices.below(len(RETURNS) if number else 3)
    if base in ("ParHandler", "CollectHandler"):
        which = 1  # what `COLLECTED` takes apart
    elif base == "SplitHandler":
        which = 0
    returned, final = RETURNS[which]
    again = ("answer", "(answer[0] + self.n, answer[1])", "answer", "answer - self.n")[which]
    able = [ANSWERS[effect] for effect in outside if effect in ANSWERS]
    outer = choices.item(["0.125", *able, *able])
    bumps = CALM if base == "SplitHandler" else BUMPS
    bump = [line.format(final=final, outer=outer, again=again) for line in choices.item(bumps)]
    left = final.replace("op.by", "op.value")
    ret = ["def ret(self, x):", f"    return {returned.format(x='x')}"] if which else []
    traverse = _traverse(choices, base)
    body = ["def __init__(self, n):", "    self.n = n", "    self.m = 0.75", *ret, *bump,
            "def look(self, op):", "    return self.n - self.m", "@final",
            "def leave(self, op):", f"    return {left}", *traverse]  # fmt: skip
    return "\n".join([f"class {name}({base}[Tally]):", *(f"    {line}" for line in body)]), which


def _traverse(choices: Choices, base: str) -> list[str]:
    """What makes the handler stand around a parallel loop."""
    if base == "Handler":
        return []
    start = choices.item(STARTS)
    if base == "SplitHandler":
        return ["def split(self, n):", f"    return {start or STARTS[1]}"]
    if base == "CollectHandler":
        lines = [*COLLECTED, "return seconds(answers)"]
        return ["def collect(self, answers):", *(f"    {line}" for line in lines)]
    end = choices.item(ENDS)
    end = end.format(values="seconds(answers)", final="(self.n, self.m)")
    lines = [f"answers = yield from loop({start})", *COLLECTED, *end.splitlines()]
    return ["def traverse(self, n, loop, k):", *(f"    {line}" for line in lines)]
