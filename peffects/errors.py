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


# --- PE2xx: kernels and staging ----------------------------------------------------------------


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
