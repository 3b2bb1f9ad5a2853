"""Every exception of peffects, each with its code, in one place.

A message says what happened, at which user line, and what to do (the format is golden-tested in
`tests/test_errors.py`).  The docstring of a class is the page that `python -m peffects explain CODE`
prints: it shows the wrong program and the right one.  Codes: PE1xx effects and handlers, PE2xx
kernels and staging, PE3xx derivatives, PE4xx what happens while compiled code runs, PE9xx our own
mistakes.  Layer 0: imports `source.py` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from peffects.source import UNKNOWN, SrcInfo

__all__ = ["PeffectsError", "error_classes"]


class PeffectsError(Exception):
    """Base of all errors of peffects.

    `what` says what happened, `at` is the user's line, `notes` are further lines (other places that
    matter), `fix` says what to do.  `code` identifies the mistake for `python -m peffects explain`.
    """

    code: ClassVar[str] = "PE000"

    def __init__(
        self, what: str, *, at: SrcInfo = UNKNOWN, notes: Sequence[str] = (), fix: str = ""
    ) -> None:
        self.what = what
        self.at = at
        self.notes = tuple(notes)
        self.fix = fix
        super().__init__(what)

    def __str__(self) -> str:
        lines = [f"{self.code} {type(self).__name__}: {self.what}"]
        if self.at.line:
            lines.append(f"  at {self.at}")
        lines += [f"  {note}" for note in self.notes]
        if self.fix:
            lines.append(f"  {self.fix}")
        lines.append(f"  python -m peffects explain {self.code}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.at, self.notes, self.fix)


def _rebuild(
    cls: type[PeffectsError], what: str, at: SrcInfo, notes: tuple[str, ...], fix: str
) -> PeffectsError:
    return cls(what, at=at, notes=notes, fix=fix)


def error_classes() -> Iterator[type[PeffectsError]]:
    """All concrete error classes, in order of their codes."""
    pending, found = [PeffectsError], []
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if cls is not PeffectsError:
            found.append(cls)
    yield from sorted(found, key=lambda cls: cls.code)


# --- PE1xx: effects and handlers ---------------------------------------------------------------


class UnhandledEffectError(PeffectsError):
    """An operation was performed, and no handler in scope handles its effect.

    Wrong::

        run(program())                          # program performs accum("x")

    Right::

        run(handle(accumulate("", str.__add__), program()))

    A handler handles exactly one effect class: `run_state(1)` handles `State`, and not `Fuel`, its
    named instance; `run_state(1, at=Fuel)` handles `Fuel`.
    """

    code = "PE101"


class MissingYieldFromError(PeffectsError, TypeError):
    """A computation was used as if it were its result, or was made and never performed.

    Wrong::

        x = get() + 1            # an operator on a computation
        yield get()              # `yield` where `yield from` is due
        for v in values(): ...   # a loop over a computation
        return step(i)           # the computation itself is returned

    Right::

        x = (yield from get()) + 1
        return (yield from step(i))
    """

    code = "PE102"


class NotAComputationError(PeffectsError, TypeError):
    """A computation is due and something else was given, or a handler is due and was not given.

    Wrong::

        run(program)                        # the function
        handle(run_state, program())        # the class

    Right::

        run(program())
        handle(run_state(0), program())
    """

    code = "PE103"


class TraverseError(PeffectsError):
    """A handler without traverse clause stands around a parallel `for`.

    Such a handler is sequential: one iteration would have to see what another one did.

    Wrong::

        run(handle(run_state(0), parallel_program()))

    Right: handle the effect inside the loop body; or use a handler with a traverse clause, such as
    `accumulate`; or write the loop sequentially::

        for i in n:
            yield from body(i)
    """

    code = "PE104"


class HandlerDefinitionError(PeffectsError, TypeError):
    """A handler class is not what a handler may be; found when the class is defined.

    Wrong::

        class counter(Handler[State[int]]):
            def get(self, op): return self.n
            def putt(self, op): self.n = op.value      # no such operation

    Right: one clause for each operation, named like the operation class in snake_case; helpers
    start with an underscore; an operation that answers `Never` has a `@final` clause or takes `k`.
    """

    code = "PE105"


class OperationDefinitionError(PeffectsError, TypeError):
    """An operation class does not say which effect it belongs to, or says it twice.

    Wrong::

        class Flip(Operation): ...

    Right::

        class Flip(Operation[Choose, bool]): ...
    """

    code = "PE106"


class ResumptionAlreadyUsed(PeffectsError):
    """A one-shot resumption was resumed twice.

    Wrong::

        def flip(self, op, k):
            return (yield from k(True)) + (yield from k(False))

    Right: mark the clause, so that the answers of its frames are kept and it may resume again::

        @multi
        def flip(self, op, k): ...
    """

    code = "PE107"


class ResumptionExpired(PeffectsError):
    """A resumption was used after the iteration or the `run` it belongs to had ended.

    A resumption is the rest of one iteration of a parallel `for`, or of one `run`; when that has
    ended, what the resumption held has been unwound.

    Wrong::

        saved = run(handle(keeps_k(), program()))      # the answer is k
        run(saved(1))

    Right: resume inside the same `run` (and inside the same iteration)::

        @effectful
        def whole():
            k = yield from handle(keeps_k(), program())
            return (yield from k(1))
    """

    code = "PE108"


class ReplayDivergence(PeffectsError):
    """Code between two operations did something else when it was run again for a further world.

    Resuming a second time rebuilds a generator by running it again with the answers it got before.

    Wrong::

        x = random.random()            # differs each time
        yield from (flip() if x < 0.5 else other())

    Right: make what varies an operation (`uniform()`), or keep its result with `once`::

        x = yield from once(random.random)
    """

    code = "PE110"


class NotReplayable(PeffectsError):
    """A frame has to be rebuilt for a further world, and nothing says how.

    Wrong::

        handle(all_worlds(), (amb([1, 2]) for _ in [0]))   # a bare generator object

    Right: pass the call of an `@effectful` function, which says how to start again::

        handle(all_worlds(), program())
    """

    code = "PE111"


class LoopValuesError(PeffectsError):
    """A traverse clause gave its continuation another number of values than the loop has indices.

    Wrong::

        return (yield from k(answers[:1]))

    Right: one plain value for each index, in index order::

        return (yield from k([a.value for a in answers]))
    """

    code = "PE112"


class IndexSetError(PeffectsError, IndexError):
    """An index set was made of something that is no size, or indexed by what is not in it.

    Wrong::

        Fin(-3)
        table[-1]           # ambiguous: a slip in a stencil, or the last element?

    Right::

        Fin(3)
        table[len(table) - 1]
    """

    code = "PE113"


class LoopCancelled(PeffectsError):
    """An iteration stopped because its loop was cancelled (an error elsewhere, or Ctrl-C).

    It is raised by `report` inside the iteration and never leaves the loop.
    """

    code = "PE114"


# --- PE2xx: kernels and staging ----------------------------------------------------------------


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

        assert x[i] > 0.0              # a test that is not rewritten
        names[int(x[i])]               # an element of a Python list
        float.hex(x[i])                # a conversion inside a library

    Right: `if`, conditional expressions and `pe.where` on values; arrays for what values index.
    """

    code = "PE204"


class KernelTypeError(PeffectsError, TypeError):
    """A value in a kernel has the wrong kind for its use.

    Wrong:

        a[i] + b                       # b is a whole table
        counts[b] += 0.5               # counts holds integers
        a[i, j]                        # a has one axis

    Right: pointful code, whose values are numbers: `b[i]`; an accumulator of `dtype=float`.
    """

    code = "PE205"


class UnsupportedSyntaxError(PeffectsError, SyntaxError):
    """A statement that kernels do not have, or not in this place.

    Wrong:

        for k in range(n):
            if x[k] > limit:
                break                  # leaves a loop under a condition on a value

    Right: a `while` loop with the condition, or a local that says that there is nothing more to do.
    """

    code = "PE206"

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
            print(x[i])
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


# --- PE3xx: derivatives ------------------------------------------------------------------------


class NotDifferentiableError(PeffectsError):
    """A derivative was asked for through something that has none, or none that peffects knows.

    Wrong: the length of a `while` loop depends on its own values, so reverse mode cannot run it back.

        while error > 1e-6:
            x = x - f(x) / df(x)

    Right: a bound on the number of steps, as a `range` loop with a carried value.

        for _ in range(20):
            x = x - f(x) / df(x)
    """

    code = "PE301"


class LinearityError(PeffectsError):
    """A function that is declared linear is not: it spends a linear value non-linearly.

    Wrong: `pe.transpose(lambda x: x * x, ...)`: x is spent twice in one product.
    Right: `pe.transpose(lambda x: 2.0 * x, ...)`.
    """

    code = "PE302"


class GradientMismatchError(PeffectsError, AssertionError):
    """`check_grads` found that derivatives disagree with each other or with finite differences.

    It is raised for wrong custom rules, and at points where a function is not smooth: check the
    gradient away from kinks and ties, where finite differences mean something.
    """

    code = "PE303"


class DerivativeArgumentError(PeffectsError, TypeError):
    """A derivative was asked for with respect to an argument, or of a result, that cannot have one.

    Wrong: `pe.grad(f, argnums=2)(x, y)`; or the gradient of a function that returns an array.
    Right: `pe.grad(f, argnums=1)(x, y)`; for an array-valued f, `pe.vjp` or `pe.jvp`.
    """

    code = "PE304"


# --- PE4xx: while compiled code runs -----------------------------------------------------------


class BoundsError(PeffectsError, IndexError):
    """An index lies outside the index set of the table that it is used on.

    Wrong, for a table x of 10 numbers:

        pe.table(lambda i: x[i + 1], over=10)          # i + 1 reaches 10

    Right: `over=9`, or a clamped index `x[min(i + 1, 9)]`.  The message has the index, the size and
    the iteration; `pe.unchecked(x)[i]` leaves the test out where you know better.
    """

    code = "PE401"


class DivisionError(PeffectsError, ZeroDivisionError):
    """An integer was divided by zero.

    Wrong:

        pe.table(lambda i: n[i] // d[i])               # some d[i] is 0

    Right: `n[i] // d[i] if d[i] != 0 else 0`.  Floats follow IEEE 754 and give inf or nan instead.
    """

    code = "PE403"


class ValueRangeError(PeffectsError, ValueError):
    """A number is outside the range that its use allows.

    Wrong:

        pe.set_threads(0)
        kernel(np.int8, 300)                           # 300 is no int8

    Right: a number in the range that the message tells.
    """

    code = "PE404"


class LaunchTimeoutError(PeffectsError, TimeoutError):
    """A compiled loop ran longer than `timeout_s` allows; it was stopped and has no result.

    Wrong:

        with launch_options(timeout_s=1.0):
            simulate(steps=10**9)                      # takes minutes

    Right: a longer `timeout_s`, or less work.
    """

    code = "PE405"


class AllocationError(PeffectsError, MemoryError):
    """A table that a kernel needs cannot be allocated: too large, or of negative size.

    Wrong, for 10**6 points x:

        pe.table(lambda i, j: abs(x[i] - x[j]))        # 8 TB

    Right: reduce where you make it, `pe.table(lambda i: pe.sum(lambda j: abs(x[i] - x[j])))`, or
    work on parts.
    """

    code = "PE406"


# --- PE9xx: our own mistakes -------------------------------------------------------------------


class InternalError(PeffectsError):
    """A bug of peffects, not of your program.

    Please report it with the text of the message; it names the pass that went wrong.
    """

    code = "PE901"


class MissingRuleError(PeffectsError):
    """A transformation has no rule for a primitive: a bug of peffects.  Please report it."""

    code = "PE902"
