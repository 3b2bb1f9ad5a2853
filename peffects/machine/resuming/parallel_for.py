"""The parallel `for` as a node of the program, and `loop`, by which a traverse clause runs it.

A `ParFor` holds an index set (opaque here: whatever has a length) and a body that takes an index.
The machine hands it to the traverse clause of the innermost handler, which re-issues it outward
through its `Loop`; what reaches the top goes to the loop runner.  Layer 1, above
`handling/handler.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from peffects.errors import LoopValuesError
from peffects.machine.checking.locations import Site, is_users, place_of_site
from peffects.machine.checking.never_performed import made
from peffects.machine.handling.handler import Handled, Handler
from peffects.machine.handling.masking import Masked
from peffects.machine.handling.operations import LOOP, Computation, Eff, Effect, start
from peffects.machine.handling.state_changes import Watch, WatchElsewhere
from peffects.machine.resuming.frames import Spares
from peffects.machine.resuming.loop_starts import no_start, starts
from peffects.source import SrcInfo

__all__ = ["Loop", "LoopRunner", "OnTick", "ParFor"]

T = TypeVar("T")

OnTick: TypeAlias = Callable[[float, int, float], None]
"""Called with the iterations done (running ones count by what they reported), all, and seconds."""

LoopRunner = Callable[["ParFor", Callable[[int], Any], Callable[[], SrcInfo]], list[Any]]
"""Runs a loop without handlers: gets the node, a function that runs one iteration to its end, and
one that finds the user's line of the loop."""


class ParFor(Computation):
    """A parallel `for` over `n`: `body` takes an ordinal and gives a value or a computation.

    Where the computation is always the call of one generator function, `starts` calls it at once.
    `place` is where the user asked for the loop, if that is known.
    """

    __slots__ = ("body", "n", "on_tick", "place", "starts")
    _tag = LOOP

    def __init__(
        self,
        n: Any,
        body: Callable[[Any], Any],
        place: Site | SrcInfo | None = None,
        on_tick: OnTick | None = None,
    ) -> None:
        self.n = n
        self.body = body
        self.place = place
        self.on_tick = on_tick
        self.starts: Callable[[int], Generator[Any, Any, Any]] | None = None

    def under(self, masked: tuple[type[Effect], ...]) -> ParFor:
        """The loop with those effects masked in each iteration."""
        body = self.body

        def under_masks(i: Any) -> Masked:
            return Masked(masked, Body(body, i))

        return ParFor(self.n, under_masks, self.place, self.on_tick)

    def collect(self, values: Sequence[Any]) -> Any:
        """What the program gets for the values of the iterations, in index order."""
        return values

    def checked(self, values: Iterable[Any], place: Callable[[], SrcInfo]) -> list[Any]:
        """The values as a list, one for each index."""
        listed = list(values)
        if len(listed) != len(self.n):
            raise LoopValuesError(
                f"a traverse clause continues with {len(listed)} values after a loop of"
                f" {len(self.n)} iterations.",
                at=place(),
                notes=(f"the loop is at {place_of_site(self.place)}",)
                if is_users(self.place)
                else (),
                fix="Give `k` one plain value for each index, in index order.",
            )
        return listed

    def _name(self) -> str:
        return "pfor(...)"

    def __repr__(self) -> str:
        return f"<pfor({self.n!r}, {getattr(self.body, '__name__', self.body)!s}), not performed>"


class Loop(Generic[T]):
    """What a traverse clause runs the loop with.

    Each call runs all iterations, and performs their effects on the handlers further out; only an
    iteration that is a bare generator runs once.
    """

    __slots__ = ("_handler", "_node", "_place", "_site")

    def __init__(
        self, node: ParFor, handler: Handler[Any, Any], site: Site | SrcInfo, place: SrcInfo
    ) -> None:
        self._node = node
        self._handler = handler
        self._site = site
        self._place = place

    @property
    def place(self) -> SrcInfo:
        """Where the loop stands, for messages."""
        return self._place

    def __reduce__(self) -> tuple[object, ...]:
        return Loop, (self._node, self._handler, place_of_site(self._site), self._place)

    def __deepcopy__(self, memo: object) -> Loop[T]:
        """Nothing of it changes."""
        return self

    def _twin(self, handler: Handler[Any, Any]) -> Loop[T]:
        """The loop as a rebuilt clause gets it."""
        return Loop(self._node, handler, self._site, self._place)

    def __call__(
        self,
        start_at: Callable[[Any], Handler[Any, Any]] | Sequence[Handler[Any, Any]] | None = None,
        *,
        on_tick: OnTick | None = None,
    ) -> Eff[Any, list[T]]:
        """Run all iterations, each under a fork of the handler, or under `start_at(i)`.

        The answers come in index order.  The executor calls `on_tick` while the loop runs.  A
        handler around may run the loop again when the clause has gone on: the iterations start with
        the handlers as they are at the call.

        Raises NotAComputationError where `start_at` gives something else than a handler,
        LoopValuesError where it is a sequence of another length.
        """
        node, site, place = self._node, self._site, self._place
        body, ticks, spares = node.body, on_tick or node.on_tick, Spares()
        handler = self._handler._fork()
        if start_at is None:
            watched = watch(handler, site, place)

            def under_handler(i: Any) -> Handled:
                here = watched if watched is not None and watched.asks_here else None
                return Handled(handler, Body(body, i), site, False, spares, here)

            return made(ParFor(node.n, under_handler, place, ticks))  # type: ignore[arg-type]
        at = starts(start_at, len(node.n), self._handler, handler)

        def under_start(i: Any) -> Handled:
            first = at(i)
            unshared = sys.getrefcount(first) <= _UNSHARED
            if not isinstance(first, Handler):
                raise no_start(i, first, place)
            return Handled(first, Body(body, i), site, unshared, spares)

        return made(ParFor(node.n, under_start, place, ticks))  # type: ignore[arg-type]


def watch(handler: Handler[Any, Any], site: Site | SrcInfo, place: SrcInfo) -> Watch | None:
    """What has to hold after each iteration under a fork of `handler`; None if anything may."""
    losing = handler._losing
    if losing is None:
        return None
    kind = WatchElsewhere if losing.sure else Watch
    return kind(dict(handler.__dict__), type(handler).__name__, losing, site, place)


def _references_of_new() -> int:
    new = object()
    return sys.getrefcount(new)


_UNSHARED: Final = _references_of_new()
"""References to a handler that was made for one iteration: nobody else sees what becomes of it."""


class Body(Computation):
    """One iteration, to be started under the handlers around it, whatever its function is."""

    __slots__ = ("body", "index")

    def __init__(self, body: Callable[[Any], Any], index: Any) -> None:
        self.body = body
        self.index = index

    def restart(self, _: object) -> Generator[Any, Any, Any]:
        """Start the iteration again, for a frame that has to be rebuilt."""
        return start(self.body(self.index))
