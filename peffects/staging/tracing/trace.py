"""The trace of a function that is being staged: scopes, emission, user lines.

One context variable holds the current `Trace`.  A trace is a tree of scopes, each with the builder
of one block; code is always emitted into the innermost open scope.  The trace knows atoms only:
tracers, which are what users hold, are in `scalars/symbols.py` and `structures/tables.py`.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Protocol

from peffects.errors import (
    AccumulatorError,
    InternalError,
    LeakedTracerError,
    PeffectsError,
    StagingLimitError,
)
from peffects.ir.builder import Builder
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import I64, Atom, Block, Check, Expr, FinSet, Prim, Ref, Var
from peffects.ir.typing import value_of
from peffects.machine.checking.locations import is_standard_file
from peffects.parallel.index_sets.index_set import IndexSet
from peffects.remembered import remembered
from peffects.source import UNKNOWN, SrcInfo, is_internal_file, of_frame
from peffects.staging.tracing.regions import enclose, export
from peffects.staging.tracing.sizes import Sizes

__all__ = [
    "STAGED_MARK",
    "Accumulator",
    "Arrays",
    "Cell",
    "Complexes",
    "Effects",
    "Inputs",
    "Kind",
    "OpenBlock",
    "Trace",
    "current",
    "here",
    "is_internal",
    "speaks_for",
    "staging",
]


class Kind(enum.Enum):
    """What a scope is the block of."""

    KERNEL = "the kernel"
    PARALLEL = "a parallel loop"
    SEQUENTIAL = "a `range` loop"
    WHILE = "a `while` loop"
    BRANCH = "one side of an `if`"


class OpenBlock:
    """An open block.  The two sides of an `if` share their `construct`."""

    def __init__(
        self, kind: Kind, parent: OpenBlock | None, construct: object, src: SrcInfo
    ) -> None:
        self.kind = kind
        self.parent = parent
        self.construct = construct
        self.src = src
        self.builder = Builder(src)
        self.accumulators: list[Accumulator] = []
        self.cells: list[Cell] = []
        self.nonnegative: set[Atom] = set()
        self.indices: list[Var] = []

    def up(self) -> Iterator[OpenBlock]:
        """This scope and all around it."""
        scope: OpenBlock | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def encloses(self, other: OpenBlock) -> bool:
        """Whether `other` is this scope or inside it."""
        return any(scope is self for scope in other.up())


@dataclass(eq=False)
class Accumulator:
    """A reference that is open from where it was made until it is first read."""

    ref: Var
    owner: OpenBlock
    src: SrcInfo
    final: Var | None = None
    read_at: SrcInfo = UNKNOWN
    finish: Callable[[Callable[[], Var]], None] | None = None
    """What is done in place of closing its region; it is given how to do that."""

    def __post_init__(self) -> None:
        self.written_in: set[object] = set()


class Arrays(Protocol):
    """What whole tables do, as numpy's arrays do it.  It is made of loops, so it lies above."""

    def pointwise(self, function: Callable[..., object], args: Sequence[object]) -> object:
        """The table of `function` of the elements of the tables among `args`."""

    def subscript(self, table: object, items: tuple[object, ...]) -> object:
        """`table[items]` with slices, `None`, `...` or tables among the items."""

    def call(
        self,
        function: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        """A function of numpy on symbols."""

    def convert(self, value: object, dtype: object) -> object:
        """The elements of a table as numbers of another type."""

    def ufunc(
        self, function: object, method: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        """A universal function of numpy, or a method such as `np.add.reduce`, on symbols."""


class Complexes(Protocol):
    """Arithmetic of complex numbers.  It is made of that of real ones, so it lies above."""

    def apply(self, primitive: Primitive, values: Sequence[object]) -> object:
        """`primitive` of numbers, of which one is complex."""

    def select(self, condition: object, then: object, orelse: object) -> object:
        """`then` if `condition` else `orelse`."""

    def truth(self, value: object) -> Atom:
        """Whether a number is not zero."""


@dataclass(eq=False)
class Cell:
    """What holds the value that a state has now; `tree` has its types, which stay."""

    value: object
    tree: object
    label: str

    @property
    def name(self) -> str:
        """Its name among locals: none of Python's has a space."""
        return f"state {id(self)}"


class Inputs(Protocol):
    """What `staging/stage.py` gives to a trace: hidden parameters and rewritten callees."""

    @property
    def arrays(self) -> Arrays:
        """What whole tables do."""

    @property
    def complexes(self) -> Complexes:
        """Arithmetic of complex numbers."""

    def record(self, value: object) -> object:
        """A dataclass from outside with its fields as the kernel reads them."""

    def capture(self, value: object) -> object:
        """The hidden parameter that stands for a number or an array; other values as they are."""

    def resolve(self, function: Callable[..., object]) -> Callable[..., object]:
        """What is called in place of `function`."""


class Effects(Protocol):
    """What a run of effects in a kernel (`effects/machine.py`) gives to hooks."""

    def branch(self, condition: object, names: Any, dead: Any, frame: Any) -> Any:
        """An `if` on a symbol."""

    def fold(self, loop: Any, names: Any, targets: Any, dead: Any, frame: Any, stop: Any) -> Any:
        """A `for` whose rounds follow each other."""

    def par(self, loop: Any, names: Any, targets: Any, dead: Any, frame: Any, stop: Any) -> Any:
        """A parallel `for` statement."""

    def while_loop(self, names: Any, dead: Any) -> Any:
        """A `while`."""

    def may_rebind(self, owner: object) -> bool:
        """Whether `owner` is a handler whose fields control flow carries."""


STAGED_MARK = "_pe_staged"
"""An attribute of classes that were made while staging; forks of handlers have such a class."""

_MOST_STEPS = 500_000


def most_steps() -> int:
    """How many steps a kernel is staged in at most: PEFFECTS_STAGING_STEPS, or half a million."""
    given = os.environ.get("PEFFECTS_STAGING_STEPS", "")
    return int(given) if given.isdigit() else _MOST_STEPS


_CURRENT: ContextVar[Trace | None] = ContextVar("peffects_trace", default=None)


class Trace:
    """One run of a user's function on symbols."""

    def __init__(self, name: str, inputs: Inputs, src: SrcInfo) -> None:
        self.name = name
        self.inputs = inputs
        self.sizes = Sizes()
        self.root = OpenBlock(Kind.KERNEL, None, object(), src)
        self.scope = self.root
        self.size_homes: dict[Var, OpenBlock] = {}
        self.lengths: dict[tuple[object, ...], tuple[OpenBlock, Atom]] = {}
        self.numbers: dict[Atom, tuple[OpenBlock, Prim | None]] = {}
        self.structures: dict[str, IndexSet[Any]] = {}
        self.open_labels: dict[Atom, str] = {}
        self.known_sets: dict[object, tuple[object, OpenBlock]] = {}
        self.named: set[Var] = set()
        self.place: SrcInfo | None = None
        self.effects: Effects | None = None
        self.constants: list[object] = []
        self.steps = 0
        self.most_steps = most_steps()
        self._made_here: dict[int, tuple[OpenBlock, object]] = {}

    @contextlib.contextmanager
    def activate(self) -> Iterator[Trace]:
        """Make this the current trace."""
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    @contextlib.contextmanager
    def performing(self, effects: Effects) -> Iterator[None]:
        """For the time of a `with`, control flow carries the handlers of `effects`."""
        outer, self.effects = self.effects, effects
        try:
            yield
        finally:
            self.effects = outer

    # --- scopes ----------------------------------------------------------------------------------

    def open(self, kind: Kind, construct: object | None = None) -> OpenBlock:
        """Enter a new block."""
        self.scope = OpenBlock(kind, self.scope, construct or object(), here())
        return self.scope

    def close(self, scope: OpenBlock, results: Sequence[Atom] = ()) -> Block:
        """Leave `scope`; its block with `results`."""
        if self.scope is not scope:
            raise InternalError(
                f"{self.scope.kind.value} is still open at the end of {scope.kind.value}."
            )
        for accumulator in scope.accumulators:
            if accumulator.final is None:
                self._close_region(accumulator)
        if scope.parent is not None:
            self.scope = scope.parent
        bindings = export(scope.builder.bindings, results, self.sizes.representative)
        return Block(bindings, tuple(results))

    @contextlib.contextmanager
    def inside(self, kind: Kind, construct: object | None = None) -> Iterator[OpenBlock]:
        """A block for the time of a `with`; the caller closes it before the end."""
        outer = self.scope
        try:
            yield self.open(kind, construct)
        finally:
            self.scope = outer

    def label_of(self, axis: FinSet) -> str:
        """The label of an axis; of one whose set was open when it was made, what settled it."""
        return axis.label or self.open_labels.get(axis.size, "")

    @contextlib.contextmanager
    def at(self, scope: OpenBlock) -> Iterator[None]:
        """Emit into `scope`, an open block around the innermost one, for the time of a `with`."""
        inner, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = inner

    def check_open(self, scope: OpenBlock, what: str) -> None:
        """Raise LeakedTracerError unless `scope` is open now."""
        if not scope.encloses(self.scope):
            raise LeakedTracerError(
                f"{what} is used outside {scope.kind.value} to which it belongs.",
                at=here(),
                notes=(f"{scope.kind.value} is at {scope.src}",) if scope.src.line else (),
                fix="Return it from the loop body: what a body returns becomes a table.",
            )

    def is_defined_around(self, size: Var, scope: OpenBlock) -> bool:
        """Whether the size was computed in `scope` or around it: a loop there can use it."""
        return self.home_of(size).encloses(scope)

    def home_of(self, size: Atom) -> OpenBlock:
        """The block that computed a size: where it is known, whichever block asks for it."""
        return self.size_homes.get(size, self.root) if isinstance(size, Var) else self.root

    def open_cells(self) -> list[Cell]:
        """The states that the innermost block may set: those outside a parallel loop it may not."""
        found: list[Cell] = []
        for scope in self.scope.up():
            found += scope.cells
            if scope.kind is Kind.PARALLEL:
                break
        return found

    # --- emission --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def located(self, src: SrcInfo | None) -> Iterator[None]:
        """Emit at the user line `src`, whatever line runs now; without one, at that."""
        outer, self.place = self.place, src
        try:
            yield
        finally:
            self.place = outer

    @property
    def builder(self) -> Builder:
        """The builder of the innermost open block."""
        return self.scope.builder

    def emit(
        self, expr: Expr, names: Sequence[str] = (), src: SrcInfo | None = None
    ) -> tuple[Var, ...]:
        """Bind `expr` in the innermost open block, at the user's line."""
        self.count_step()
        self.builder.at = src or self.place or here()
        made = self.builder.emit(expr, names)
        for var in made:
            if var.type == I64:  # what sizes are computed from
                self.numbers[var] = self.scope, expr if isinstance(expr, Prim) else None
        return made

    def count_step(self) -> None:
        """Count a step of staging.  Raises StagingLimitError when there are too many."""
        self.steps += 1
        if self.steps > self.most_steps:
            raise StagingLimitError(
                f"`{self.name}` is not staged after {self.most_steps} steps.",
                at=here(),
                fix="Write loops over values as `for k in range(n)` and `pe.table`, which are "
                "staged once; or allow more: PEFFECTS_STAGING_STEPS=10000000.",
            )

    def prim(self, op: Primitive, *args: Atom, name: str = "t") -> Var:
        """`op(args)`."""
        return self.emit(Prim(op, args), (name,))[0]

    def check(
        self,
        ok: Atom,
        error: type[PeffectsError],
        text: str,
        operands: Sequence[Atom] = (),
        fix: str = "",
    ) -> None:
        """Stop the program with `error` unless `ok`."""
        self.emit(Check(ok, error, text, tuple(operands), fix))

    # --- accumulators ----------------------------------------------------------------------------

    def accumulator(self, ref: Var) -> Accumulator:
        """A new accumulator that lives in the innermost open block."""
        made = Accumulator(ref, self.scope, here())
        self.scope.accumulators.append(made)
        return made

    def note_write(self, accumulator: Accumulator) -> None:
        """Say that the innermost open block writes to `accumulator`."""
        if accumulator.final is not None:
            raise AccumulatorError(
                f"`{accumulator.ref.name}` is written after it was read.",
                at=here(),
                notes=(f"read at {accumulator.read_at}",),
                fix="Make a new accumulator for what comes after the read, and add the two.",
            )
        accumulator.written_in.add(self._construct_below(accumulator.owner))

    def read(self, accumulator: Accumulator) -> Var:
        """The final value of `accumulator`; from here on it cannot be written."""
        if accumulator.final is None:
            if self._construct_below(accumulator.owner) in accumulator.written_in and (
                self.scope is not accumulator.owner
            ):
                raise AccumulatorError(
                    f"`{accumulator.ref.name}` is read inside {self.scope.kind.value} that "
                    "writes to it.",
                    at=here(),
                    notes=(f"made at {accumulator.src}",),
                    fix="Read it after the loop: others may still add to it. For a running total "
                    "use a local variable in a `range` loop.",
                )
            accumulator.read_at = here()
            self._close_region(accumulator)
        assert accumulator.final is not None
        return accumulator.final

    def _construct_below(self, owner: OpenBlock) -> object:
        """The loop or `if` directly inside `owner` that is being staged; None in `owner` itself."""
        found: object = None
        for scope in self.scope.up():
            if scope is owner:
                return found
            found = scope.construct
        raise InternalError("an accumulator is used outside its block")

    def _close_region(self, accumulator: Accumulator) -> None:
        if accumulator.finish is not None:
            accumulator.finish(lambda: self._enclose(accumulator))
        else:
            self._enclose(accumulator)

    def _enclose(self, accumulator: Accumulator) -> Var:
        ref = accumulator.ref
        assert isinstance(ref.type, Ref)
        accumulator.final = Var(ref.name, value_of(ref))
        bindings = accumulator.owner.builder.bindings
        src, resolve = accumulator.src, self.sizes.representative
        bindings[:] = enclose(bindings, ref, accumulator.final, src, resolve)
        return accumulator.final

    # --- objects that Python code makes ----------------------------------------------------------

    def note_made(self, value: object) -> None:
        """Remember that the innermost block made `value`, so that it may change it."""
        self._made_here[id(value)] = (self.scope, value)

    def may_change(self, value: object) -> bool:
        """Whether the innermost block may change the Python object `value`: it made it itself."""
        scope, _ = self._made_here.get(id(value), (None, None))
        return scope is self.scope

    def was_made(self, value: object) -> bool:
        """Whether the kernel itself made the Python object `value`, or staging did for it."""
        return id(value) in self._made_here or hasattr(type(value), STAGED_MARK)


def current() -> Trace | None:
    """The trace that is going on in this context."""
    return _CURRENT.get()


def staging() -> Trace:
    """The trace that is going on; InternalError if there is none."""
    trace = _CURRENT.get()
    if trace is None:
        raise LeakedTracerError(
            "a symbol of a kernel is used after the kernel was staged.",
            at=here(),
            fix="Return values from the kernel; do not keep them in globals, lists or attributes.",
        )
    return trace


# --- the user's line -----------------------------------------------------------------------------

_SPEAKERS: set[CodeType] = set()


def speaks_for(code: CodeType) -> None:
    """Say that what a function calls happens at the user's line in its local `place`."""
    _SPEAKERS.add(code)


@functools.lru_cache(maxsize=1024)
def is_internal(file: str) -> bool:
    """Whether `file` is ours, or of a library whose functions call us back."""
    return is_standard_file(file) or is_internal_file(file)


@remembered
def _places_in(code: CodeType) -> dict[int, SrcInfo]:
    """The places in some code that somebody asked for, by the offset of the instruction."""
    return {}


def here() -> SrcInfo:
    """The user's line that is running now.  Like `source.caller`, but it remembers places."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            places = _places_in(code)
            if frame.f_lasti not in places:
                places[frame.f_lasti] = of_frame(frame)
            return places[frame.f_lasti]
        if code in _SPEAKERS:
            place: SrcInfo = frame.f_locals["place"]
            if place.line:
                return place
        frame = frame.f_back
    return UNKNOWN
