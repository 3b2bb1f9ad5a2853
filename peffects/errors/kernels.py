"""Mistakes in kernels, found while they are staged: PE2xx.

The page of each, which `python -m peffects explain CODE` prints, is in `docs/errors`.
"""

from __future__ import annotations

from collections.abc import Sequence

from peffects.errors.base import PeffectsError
from peffects.source import UNKNOWN, SrcInfo


class IndexSetMismatchError(PeffectsError, ValueError):
    """One index is used on two tables whose index sets differ.

    Wrong, for x of 10 numbers and y of 9:

        pe.sum(lambda i: x[i] * y[i])

    Right: arrays whose axes agree; or say which set is meant, and index the longer table with an
    int, which is tested at run time:

        pe.sum(lambda i: x[int(i) + 1] * y[i])
    """

    code = "PE201"


class UnknownIndexSetError(PeffectsError, TypeError):
    """Nothing says which set an index runs over: it indexes no table, and there is no `over=`.

    Wrong:

        pe.table(lambda i: 2.0 * i)

    Right:

        pe.table(lambda i: 2.0 * i, over=n)            # n: an int, a `Fin`, a table or `x.index`
    """

    code = "PE202"


class DataRaceError(PeffectsError):
    """Iterations of a parallel loop would write to one place.

    Wrong:

        total = 0.0
        for i in pe.par(x):
            total = total + x[i]
            out[i] = 2.0 * x[i]

    Right: accumulate into an accumulator, make a table, or say that the loop is sequential
    (`range`):

        total = pe.sum(lambda i: x[i])
        out = pe.table(lambda i: 2.0 * x[i])
    """

    code = "PE203"


class ControlFlowError(PeffectsError, TypeError):
    """Python needs a number where there is only a symbol that stands for one.

    Kernels run once, on symbols.  `if`, `while`, `range`, `and`, `max` and so on are rewritten
    where peffects sees the source; elsewhere Python itself would have to decide.

    Wrong:

        names[int(x[i])]               # an element of a Python list
        float.hex(x[i])                # a conversion inside a library

    Right: `if`, conditional expressions and `pe.where` on values; arrays for what values index.
    """

    code = "PE204"


class KernelTypeError(PeffectsError, TypeError):
    """A value in a kernel has the wrong kind for its use.

    Wrong:

        1.0 if x > 0.0 else 2.0        # x is a whole table
        counts[b] += 0.5               # counts holds integers
        a[i, j]                        # a has one axis

    Right: what is a number: `x[i]`, `x.all()`; an accumulator of `dtype=float`.
    """

    code = "PE205"


class UnsupportedSyntaxError(PeffectsError, SyntaxError):
    """A statement that kernels do not have, or not in this place.

    Wrong:

        for i in pe.par(x):
            if x[i] > limit:
                break                  # iterations of a parallel loop have no order

    Right: `for k in range(n)`, whose rounds follow each other and which may `break`, `continue` and
    `return`; or a reduction over all iterations, such as `pe.any(lambda i: x[i] > limit)`.
    """

    code = "PE206"

    def __init__(
        self, what: str, *, at: SrcInfo = UNKNOWN, notes: Sequence[str] = (), fix: str = ""
    ) -> None:
        super().__init__(what, at=at, notes=notes, fix=fix)
        # Shells show syntax errors by these fields, whatever `str` says.
        self.msg = str(self)
        if at.line:
            self.filename, self.lineno, self.text = at.file, at.line, at.snippet() or None

    def __str__(self) -> str:
        return PeffectsError.__str__(self)


class LeakedTracerError(PeffectsError):
    """A symbol was used outside the loop, the branch or the kernel to which it belongs.

    Wrong:

        rows = []
        pe.table(lambda i: keep(rows, x[i]))           # keep() stores its argument in rows
        return rows[0]

    Right: what a loop body makes leaves it as its result.
    """

    code = "PE207"


class SideEffectError(PeffectsError):
    """A kernel does something that Python would do at each call, or in each iteration.

    A kernel's Python code runs once, while it is staged, so the effect would happen once.

    Wrong:

        for i in pe.par(x):
            time.sleep(x[i])
            results.append(x[i])

    Right: return what you need and do it outside; inside a loop, make a table or accumulate.
    """

    code = "PE208"


class AccumulatorError(PeffectsError):
    """An accumulator is read while it is written, or written after it was read.

    Wrong:

        for i in pe.par(x):
            h[b] += 1.0
            y = h[b]                   # other iterations may still add

    Right: read it after the loop; start a new accumulator for what comes then.
    """

    code = "PE209"


class KernelRecursionError(PeffectsError, RecursionError):
    """A kernel calls itself: staging it would never end.

    Wrong:

        @pe.kernel
        def power(x, n): return 1.0 if n == 0 else x * power(x, n - 1)

    Right: a loop.

        for _ in range(n): y = y * x
    """

    code = "PE210"


class MergeError(PeffectsError, TypeError):
    """The two sides of an `if`, or two rounds of a loop, leave a name with values of two kinds.

    Wrong:

        if x[i] > 0.0:
            y = x[i]
        return y                       # no y on the other side

    Right: give the name a value of the same type on both sides, or before the loop.
    """

    code = "PE211"


class UnboundedTableError(PeffectsError):
    """A table inside a compiled loop has a size that only the loop knows.

    Memory of compiled loops is allocated before they start.

    Wrong:

        pe.table(lambda i: pe.sum(lambda j: f(pe.table(g, over=count[i]), j), over=n))

    Right: a bound that is known before, `over=min(count[i], n)`; or no table, if it is only summed.
    """

    code = "PE212"


class KernelEffectError(PeffectsError, TypeError):
    """An effect or a handler does in a kernel what cannot be decided while the kernel is staged.

    Wrong, since the rest would have to be staged once for each world:

        @pe.kernel
        def total(x):
            return pe.run(handle(all_worlds(), program(x)))

    Right: run such handlers outside the kernel, and call kernels from the computation; inside, use
    clauses that answer, `@final` clauses, and clauses that call `k` once on every way:

        @pe.kernel
        def total(x):
            return pe.run(handle(run_state(0.0), program(x)))
    """

    code = "PE213"


class StagingLimitError(PeffectsError):
    """A kernel is staged in more steps than are allowed: it has no end, or is far too large.

    Loops over Python sequences are unrolled, and calls are staged where they stand.

    Wrong:

        def twice(n, x): return x if n == 0 else twice(n - 1, x) + twice(n - 1, x)

        @pe.kernel
        def f(x): return twice(40, x)

    Right: a loop that is staged once.

        for _ in range(40): x = x + x
    """

    code = "PE214"
