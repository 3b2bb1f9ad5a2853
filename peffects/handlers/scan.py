"""Scan: running sums.  `scan(x)` adds x, and answers what was there before it.

`prefix_sums` works with any associative `combine`.  Around a parallel `for` it takes two phases:
the iterations run once to learn what each adds, the sums before each are formed, and the iterations
run again, now with the right answers.  So effects that are handled further out happen twice: put
this handler outside of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np

from peffects.errors import ScanDependenceError
from peffects.handlers.traversal import pairs_of
from peffects.machine.handling.handler import ParHandler
from peffects.machine.handling.operations import Eff, Effect, Operation
from peffects.parallel.monoid import Monoid

if TYPE_CHECKING:
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

__all__ = ["Scan", "ScanOp", "prefix_sums", "scan"]

T = TypeVar("T")
R = TypeVar("R")


class Scan(Effect, Generic[T]):
    """Values of type T are added up, and the sums so far are known."""

    @classmethod
    def scan(cls, value: T) -> Eff[Self, T]:
        """Add to this instance; gives what was there before."""
        operation: Any = ScanOp.at(cls)
        return operation(value)  # type: ignore[no-any-return]


class ScanOp(Operation[Scan[T], T]):
    """Add a value; answers what was there before."""

    value: T


def scan(value: T) -> Eff[Scan[T], T]:
    """Add `value` to the running sum; gives the sum of all that came before it in index order."""
    return ScanOp(value)


class prefix_sums(ParHandler[Scan[T]]):
    """Running sums with a monoid; the answer is (the sum of all, result)."""

    if TYPE_CHECKING:

        @overload
        def __init__(
            self, empty: T, combine: Callable[[T, T], T], at: type[Scan[Any]] = Scan
        ) -> None: ...
        @overload
        def __init__(self, empty: Monoid[T], *, at: type[Scan[Any]] = Scan) -> None: ...

    def __init__(self, empty: Any, combine: Any = None, at: type[Scan[Any]] = Scan) -> None:
        if combine is None:
            empty, combine = empty.empty, empty.combine
        self.empty: T = empty
        self.combine: Callable[[T, T], T] = combine
        self.before: T = empty  # what came before this iteration
        self.own: T = empty  # what this iteration added so far

    def ret(self, x: R, /) -> tuple[T, R]:
        """The sum comes first: in an iteration, of what it added itself."""
        return self.own, x

    def scan(self, op: ScanOp[T]) -> T:
        """Add a value."""
        earlier = self.combine(self.before, self.own)
        self.own = self.combine(self.own, op.value)
        return earlier

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Learn what each iteration adds, then run each with the sum of those before it."""
        first = yield from loop(lambda i: self._with(before=self.empty, own=self.empty))
        at, own, starts = self.combine(self.before, self.own), self.own, []
        parts, _ = pairs_of(self, first, loop.place)
        for added in parts:
            starts.append(self._with(before=at, own=self.empty))
            at, own = self.combine(at, added), self.combine(own, added)
        second = yield from loop(starts)
        parts_again, values = pairs_of(self, second, loop.place)
        for i, (added, again) in enumerate(zip(parts, parts_again, strict=True)):
            if not _equal(added, again):
                raise _dependent(i, added, again)
        self.own = own
        return (yield from k(values))


def _equal(x: Any, y: Any) -> bool:
    """Whether both are the same, bit for bit: NaN is the same as NaN."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))
    return bool(x == y) or (x != x and y != y)


def _dependent(i: int, added: object, again: object) -> ScanDependenceError:
    return ScanDependenceError(
        f"iteration {i} added {added!r} when it ran first, and {again!r} when it ran with the sum"
        " of those before it.",
        fix="Add what does not depend on what `scan` answers, or write the loop sequentially:"
        " `for i in n: yield from body(i)`.",
    )
