"""Random kernels as Python source: `kernel(x, y, a, at, q, z, count)`, as users write them.

Nested tables and reductions, accumulators, states, folds, slices, branches, loops of all kinds;
indices of the loops, affine, clamped, guarded, or read from `at`.  `x` and `at` have one length,
`y` another one, `a` both; `q` is as long as `x`, of any type.  Values stay small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz.choices import Choices
from fuzz.kernel_loops import STATEMENTS

__all__ = ["KernelProgram", "arguments", "kernel_program"]

COMBINE = (
    "({x} + {y})", "({x} - {y})", "0.5 * {x} * pe.tanh({y})", "pe.sin({x} + {y})", "max({x}, {y})",
    "({x} if {y} > 0.1 else 0.5 * {x})", "{x} / (2.0 + pe.cos({y}))", "min({x}, 0.3 - {y})",
    "pe.where({x} < {y}, {y}, 0.25)",
)  # fmt: skip
REDUCE = ("pe.sum(lambda {i}: {e})", "pe.mean(lambda {i}: {e})", "pe.max(lambda {i}: {e})")
ELEMENTS = (
    "{t}[{i}]", "{t}[max({i} - 1, 0)]", "{t}[min({i} + 1, len({t}) - 1)]",
    "({t}[{i} - 1] if {i} > 0 else 0.25)", "{t}[len({t}) - 1 - {i}]", "{t}[at[{i}]]",
    "{t}[(3 * {i} + 1) % len({t})]",
)  # fmt: skip
DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool", "int8", "uint32", "uint64",
          "int16", "uint16")  # fmt: skip


@dataclass
class KernelProgram:
    """Text that defines `kernel`, and the type of its argument `q`."""

    text: str
    dtype: str


class Scope:
    """What an expression may mention: scalars, and elements of tables at the indices around it."""

    def __init__(self, scalars: list[str], tables: list[str]) -> None:
        self.scalars, self.tables = scalars, tables
        self.rows: list[str] = []
        self.columns: list[str] = []

    def inside(self, row: str = "", column: str = "") -> Scope:
        """The scope of a loop body."""
        inner = Scope(self.scalars, self.tables)
        inner.rows = self.rows + [row] * bool(row)
        inner.columns = self.columns + [column] * bool(column)
        return inner


class Writer:
    """Writes the statements of a kernel, each of which changes `s` or defines a table."""

    def __init__(self, choices: Choices, kinds: tuple[str, ...]) -> None:
        self.choices, self.kinds = choices, kinds
        self.scope = Scope(["s", "z"], ["x"])
        self.number = 0

    def leaf(self, scope: Scope) -> str:
        """An element, more often than a scalar or a constant."""
        elements = [
            self.choices.item(ELEMENTS).format(t=self.choices.item(scope.tables), i=i)
            for i in scope.rows[-2:]
        ]
        elements += [f"y[{j}]" for j in scope.columns]
        elements += [f"a[{i}, {j}]" for i in scope.rows for j in scope.columns]
        return self.choices.item([*scope.scalars, "0.25", "-0.5", *elements, *elements])

    def expression(self, scope: Scope, depth: int = 2) -> str:
        """An expression of floats."""
        kind = self.choices.below(4) if depth else 0
        if kind == 0:
            return self.leaf(scope)
        if kind == 3 and len(scope.rows + scope.columns) < 3:
            name = ("i", "j")[self.choices.below(2)] + str(len(scope.rows + scope.columns))
            by_row = name[0] == "i"
            inner = scope.inside(row=name) if by_row else scope.inside(column=name)
            table = f"x[{name}]" if by_row else f"y[{name}]"  # says which set it runs over
            body = f"({table} + {self.expression(inner, depth - 1)})"
            return self.choices.item(REDUCE).format(i=name, e=body)
        x, y = self.expression(scope, depth - 1), self.expression(scope, depth - 1)
        return self.choices.item(COMBINE).format(x=x, y=y)

    def statement(self) -> list[str]:
        """The next statement."""
        self.number += 1
        kind = self.choices.item(self.kinds)
        if kind in STATEMENTS:
            return STATEMENTS[kind](self)
        made: list[str] = getattr(self, f"w_{kind}")()
        return made

    def new_table(self) -> str:
        """The name of a table that later statements may read."""
        self.scope.tables.append(f"t{self.number}")
        return f"t{self.number}"

    # --- tables ----------------------------------------------------------------------------------

    def w_table(self) -> list[str]:
        """A table over the rows."""
        body = self.expression(self.scope.inside(row="i"))
        return [f"{self.new_table()} = pe.table(lambda i: {body}, over=x.index)"]

    def w_triangle(self) -> list[str]:
        """A table over pairs, and its sums."""
        side = self.choices.item(("upto", "below", "from_", "above"))
        body = self.expression(self.scope.inside(row="i").inside(row="k"))
        rows, p = f"pe.table(lambda k: pe.tanh({body}), over=i.{side}())", f"p{self.number}"
        return [f"{p} = pe.table(lambda i: {rows}, over=x.index)",
                f"{self.new_table()} = pe.table(lambda i: "
                f"pe.sum(lambda k: 0.3 * {p}[i, k] * x[k], over=i.{side}()), over=x)"]  # fmt: skip

    def w_accumulator(self) -> list[str]:
        """Scattered or gathered values, combined."""
        target, source = self.choices.item((("i", "i"), ("at[i]", "i"), ("i", "at[i]")))
        body = self.expression(self.scope.inside(row=source), 1)
        name = self.new_table()
        if self.choices.one_in(3):
            most = self.choices.item(("max", "min"))
            return [f"h{self.number} = pe.accumulator(x, op={most!r})", "for i in pe.par(x):",
                    f"    h{self.number}.combine({target}, pe.tanh({body}))",
                    f"{name} = pe.table(lambda i: pe.tanh(h{self.number}[i]))"]  # fmt: skip
        return [f"{name} = pe.accumulator(x)", "for i in pe.par(x):",
                f"    {name}[{target}] += pe.tanh({body})"]  # fmt: skip

    def w_slice(self) -> list[str]:
        """Slices of a table, added up or put together."""
        t = self.choices.item(self.scope.tables)
        u = self.choices.item(self.scope.tables)
        part = self.choices.item((
            f"{t}[1:] - {t}[:-1]", f"{t}[::-1] * x", f"{t}[::2]", f"{t}[count:]", f"{t}[:count]",
            f"np.concatenate([{t}[:1], {t}[1:]])", f"np.where({t} > 0.1, {t}, x)",
            f"a[:, 0] + {t}", f"np.sort({t})", f"{t}[at]", f"np.cumsum({t}) * 0.1",
            f"{t}[1:-1] * {u}[2:]", f"{t}[-2:]", f"a[:, 1:].sum(axis=1) * {t}", f"a[::-1].T @ {t}",
            f"np.diff({t})", f"np.roll({t}, -1) - {u}", f"np.outer({t}, y)", f"{t}.reshape(-1, 1)",
            f"a[at] @ y + {t}", f"np.minimum({t}, {u})[::-1]", f"np.stack([{t}, {u}])[:, ::2]",
            f"np.repeat({t}, 2)[1:]", f"np.clip({t}, -0.3, count)", f"np.square({t}[count:])",
        ))  # fmt: skip
        return [f"s = pe.tanh(s + np.sum({part}))"]

    def w_prefix(self) -> list[str]:
        """Running sums."""
        body = self.expression(self.scope.inside(row="i"), 1)
        kind = self.choices.item(("cumsum", "cummax", "cumprod"))
        return [f"{self.new_table()} = pe.{kind}(lambda i: pe.tanh({body} + x[i]))"]

    def w_typed(self) -> list[str]:
        """Arithmetic of numbers of some type."""
        body = self.choices.item((
            "q[i]", "q[i] + q[i]", "q[i] * 2", "q[i] > 0", "min(q[i], 3)", "q[i] // 2 + q[i] % 3",
            "-q[i] * 1", "q[i] / 2", "abs(q[i] - 1)", "at[i] - q[i]", "q[i] ** 2", "q[i] == 3",
            "q[i] if x[i] > 0.0 else 1", "max(q[i], at[i])", "q[i] * x[i]", "not q[i]", "int(q[i])",
            "(q[i] > 1) & (q[i] < 7)", "q[i] - np.int32(2)", "min(q[i], q[at[i]])", "float(q[i])",
        ))  # fmt: skip
        name = f"q{self.number}"
        return [f"{name} = pe.table(lambda i: {body})", f"typed = {name}",
                f"s = pe.tanh(s + 0.01 * float(pe.sum(lambda i: {name}[i] % 5)))"]  # fmt: skip

    # --- sequences -------------------------------------------------------------------------------

    def w_assign(self) -> list[str]:
        """An assignment."""
        return [f"s = pe.tanh(s + {self.expression(self.scope)})"]

    def w_if(self) -> list[str]:
        """An `if` on a value."""
        one, other = self.expression(self.scope), self.expression(self.scope)
        return ["if s > 0.2:", f"    s = s * {one}", "else:", f"    s = pe.tanh({other}) - s"]

    def w_range(self) -> list[str]:
        """A loop of `count` rounds."""
        return ["for r in range(count):",
                f"    s = pe.tanh(s + {self.expression(self.scope)} * x[r])"]  # fmt: skip

    def w_break(self) -> list[str]:
        """A loop that is left early."""
        word = self.choices.item(("break", "continue", "return s"))
        if word == "return s":
            word = "return s, typed"
        step = self.choices.item(("", ", 0, -1", ", len(x), 2"))
        start = {"": "len(x)", ", 0, -1": "len(x) - 1, 0, -1", ", len(x), 2": "0, len(x), 2"}[step]
        return [f"for r in range({start}):", f"    if x[r] > {self.leaf(self.scope)}:",
                f"        {word}",
                f"    s = pe.tanh(s + x[r] * {self.leaf(self.scope)})"]  # fmt: skip

    def w_fold(self) -> list[str]:
        """A fold."""
        body = self.expression(self.scope.inside(row="i"), 1)
        reverse = self.choices.item(("", ", over=x.index, reverse=True"))
        return [f"s = pe.fold(lambda c, i: pe.tanh(c * x[i] + {body}), s{reverse})"]

    def w_state(self) -> list[str]:
        """A table that is set element by element, under a condition."""
        name, value = f"m{self.number}", self.expression(self.scope, 1)
        place = self.choices.item(("r", "len(x) - 1 - r", "at[r]", "r // 2"))
        first = self.choices.item(("x", "pe.table(lambda i: 0.5 * x[i])"))
        return [f"{name} = pe.state({first})", "for r in range(len(x)):",
                f"    if {name}[r] < 0.5:", f"        {name}[{place}] = pe.tanh({value} + x[r])",
                f"    s = pe.tanh(s + {name}[{place}])",
                f"{self.new_table()} = pe.table(lambda i: {name}[i] * 0.5)"]  # fmt: skip

    def w_carried(self) -> list[str]:
        """Steps of a simulation."""
        name = self.new_table()
        body = self.choices.item(("{t}[max(i - 1, 0)]", "{t}[i] * x[i]", "{t}[at[i]]"))
        return [f"{name} = pe.table(lambda i: 0.5 * x[i])", "for r in range(count):",
                f"    old = {name}", f"    {name} = pe.table(lambda i: pe.tanh(old[i] + "
                f"{body.format(t='old')}), over=x.index)"]  # fmt: skip

    def w_while(self) -> list[str]:
        """A `while`, some of which are left early."""
        value = self.expression(self.scope)
        leave = ["    if s > 0.6:", "        break"] * self.choices.below(2)
        return ["r = 0", "while r < count:", f"    s = pe.sin(s + {value})", "    r += 1", *leave]


SMOOTH = ("assign", "table", "triangle", "accumulator", "if", "range", "slice", "prefix", "fold",
          "state", "carried", "break", "while", *STATEMENTS, "carried_arrays", "masked",
          "inner_loop")  # fmt: skip


def kernel_program(choices: Choices, smooth: bool) -> KernelProgram:
    """A kernel that gives a number, which may have a derivative, and a table of another type."""
    writer = Writer(choices, SMOOTH if smooth else (*SMOOTH, "typed", "typed", "typed"))
    lines = ["s = 0.1 * z", "typed = q"]
    for _ in range(choices.between(1, 4)):
        lines += writer.statement()
    last = writer.expression(writer.scope.inside(row="i"), 1)
    lines.append(f"return s + pe.sum(lambda i: x[i] * pe.tanh({last})), typed")
    head = "import numpy as np\nimport peffects as pe\n\ndef kernel(x, y, a, at, q, z, count):"
    return KernelProgram("\n    ".join([head, *lines]) + "\n", choices.item(DTYPES))


def arguments(drawn: KernelProgram, rows: int, columns: int) -> tuple[Any, ...]:
    """Arguments with different numbers in each element."""
    rng = np.random.default_rng(rows * 10 + columns)
    x, y, a = rng.normal(size=rows), rng.normal(size=columns), rng.normal(size=(rows, columns))
    q = rng.integers(0, 9, rows).astype(drawn.dtype)
    return x, y, a, rng.integers(0, max(rows, 1), rows), q, 0.3, min(rows, 3)
