"""Handlers: classes whose methods are the clauses of an effect, and `handle`, which installs one.

A handler's state is its fields, set in `__init__` and rebound, never mutated: installing a handler,
each iteration of a parallel `for` and each resumption work on a fork (a new object with the same
fields).  Definition-time checks are in `clauses.py`; what clauses do when is in
`running/machine.py`.  Layer 1.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Never,
    Protocol,
    Self,
    Union,
    get_args,
    get_origin,
    overload,
)

from peffects.errors import HandlerDefinitionError, LoopValuesError, NotAComputationError
from peffects.machine.checking.locations import Site, calling_site, place_of_site
from peffects.machine.checking.never_performed import NEWEST, made, performed
from peffects.machine.handling.clause_checks import (
    check_collected,
    check_defined_once,
    check_given,
    check_shapes,
)
from peffects.machine.handling.clauses import (
    MULTI,
    Clause,
    bare,
    check_basic,
    class_place,
    collect_clauses,
)
from peffects.machine.handling.field_uses import fields_read, fields_set
from peffects.machine.handling.operations import (
    HANDLE,
    HANDLER_METHODS,
    Computation,
    Eff,
    Effect,
    Operation,
    check_computation,
)
from peffects.machine.handling.state_changes import Losing, Watch
from peffects.source import SrcInfo, caller, of_code

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from peffects.machine.resuming.frames import Spares
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption
else:
    from typing import TypeVar

__all__ = [
    "BasicHandler",
    "CollectHandler",
    "Handler",
    "ParHandler",
    "SplitHandler",
    "handle",
    "handler",
]

MYPY: Final = False
"""mypy reads this as true: it cannot solve `Eff[A | B, R]` for `B`, and gets gradual signatures."""

E = TypeVar("E")
R = TypeVar("R")
R2 = TypeVar("R2")
C = TypeVar("C")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
R2_co = TypeVar("R2_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)
if TYPE_CHECKING:
    SeqRest = TypeVar("SeqRest", bound=Effect, default=Never)
    B = TypeVar("B", default=Never)
    F = TypeVar("F", default=Never)
else:
    F = TypeVar("F")


class _Clauses(Protocol[A_co, R_contra, R2_co]):
    @property
    def handles(self) -> A_co: ...
    def ret(self, x: R_contra, /) -> R2_co: ...


class _Exactly(Protocol[A, R_contra, R2_co, F_co]):
    """A handler by its one effect; invariant in it, or a row would do for the effect."""

    def _row(self, effect: A, /) -> A: ...
    @property
    def performs(self) -> F_co: ...
    def ret(self, x: R_contra, /) -> R2_co: ...


class _Handles(Protocol[C_contra, R2_co]):
    def handle(self, c: C_contra, /) -> R2_co: ...


class _HandlesAlone(Protocol[C_contra, R2_co]):
    """Has a `handle` of its own: this is the case of a row with nothing else in it."""

    def _alone(self, c: C_contra, /) -> R2_co: ...


def _effects_of(cls: type) -> tuple[type[Effect], ...]:
    """The effects named in `Handler[State[S]]`, or in `Handler[State[S] | Throw[X]]`."""
    for base in cls.__dict__.get("__orig_bases__", ()):
        if isinstance(get_origin(base), type) and issubclass(get_origin(base), Handler):
            for argument in get_args(base)[:1]:
                effects = [get_origin(part) or part for part in _parts(argument)]
                for effect in effects:
                    _check_no_operation(cls, effect)
                if all(isinstance(e, type) and issubclass(e, Effect) for e in effects):
                    return tuple(effects)
    return ()


def _parts(row: Any) -> tuple[Any, ...]:
    return get_args(row) if get_origin(row) in (Union, UnionType) else (row,)


def _check_no_operation(cls: type, effect: object) -> None:
    if isinstance(effect, type) and issubclass(effect, Operation):
        raise HandlerDefinitionError(
            f"handler `{cls.__name__}` names the operation `{effect.__name__}`.",
            at=caller(),
            fix=f"A handler names the effect: `{effect._effect.__name__}`.",
        )


class Handler(Generic[A, F]):
    """Base of handlers without traverse clause, which cannot run around a parallel `for`.

    `Handler[State[S]]` handles `State`; `Handler[State[S] | Throw[X]]` handles both effects;
    `Handler[State[S], F]` says that its clauses perform `F`.  The keyword `at=` of any handler
    makes it handle a named instance of its effect.
    """

    _effect: ClassVar[type[Effect] | None] = None
    _clauses: ClassVar[dict[str, Clause]] = {}
    _ret: ClassVar[Callable[..., Any] | None] = None
    _ret_is_generator: ClassVar[bool] = False
    _traverse: ClassVar[Callable[..., Any] | None] = None
    _has_multi: ClassVar[bool] = False
    _at_position: ClassVar[int] = -1
    _effects: ClassVar[tuple[type[Effect], ...]] = ()
    _at: type[Effect] | None = None
    _handled: tuple[type[Effect], ...] = ()
    _catches: tuple[type[BaseException], ...] = ()
    _losing: ClassVar[Losing | None] = None
    """What parallel loops lose of a fork's state; None if the traverse clause has to care."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters):
            # `Handler[State[S]]` for `Handler[State[S], Never]`: a TypeVar has no default in 3.11.
            if cls.__module__ == __name__ and not isinstance(parameters, tuple):
                parameters = (parameters, Never)
            return super().__class_getitem__(parameters)

        def __new__(cls, *args, **kwargs):
            """Make a handler; `at=` says which named instance it handles."""
            self = object.__new__(cls)
            position = cls._at_position
            at = kwargs.get("at", args[position] if 0 <= position < len(args) else None)
            if cls.__init__ is object.__init__ and (args or kwargs.keys() - {"at"}):
                raise TypeError(f"{cls.__name__}() takes no arguments but `at`")
            if at is not None and at is not cls._effect:
                replaced = _check_instance(cls, at)
                self._at = at
                self._handled = tuple(at if e is replaced else e for e in cls._effects)
            return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        effects = _effects_of(cls) or cls.__dict__.get("_effects", ())
        if effects:
            cls._effect = cls._at = effects[0]
            cls._effects = cls._handled = effects
        slotted = next((base for base in cls.__mro__ if base.__dict__.get("__slots__")), None)
        if slotted is not None or "__slots__" in cls.__dict__:
            where = f", by its base `{slotted.__name__}`" if slotted not in (None, cls) else ""
            raise HandlerDefinitionError(
                f"handler `{cls.__name__}` has `__slots__`{where}; a fork copies plain fields.",
                at=class_place(cls),
                fix="Remove `__slots__`.",
            )
        if cls._effects and not _is_unpickled():
            _define_handler(cls, cls._effects)

    if TYPE_CHECKING:

        @property
        def handles(self) -> A:
            """The effect, for type checkers."""

        @property
        def performs(self) -> F:
            """The effects of the clauses, for type checkers."""

        def _row(self, effect: A, /) -> A: ...

    def ret(self, x: Any, /) -> Any:
        """The return clause: the answer for the result `x`."""
        return x

    if MYPY:

        def handle(self, c: Eff[E, R], /) -> Eff[Any, Any]:
            """Run `c` under a fork of this handler."""
    elif TYPE_CHECKING:

        def handle(self: _Clauses[A, R, R2], c: Eff[A | SeqRest, R], /) -> Eff[SeqRest | F, R2]:
            """Run `c` under a fork of this handler."""
    else:

        def handle(self, c, /):
            """Run `c` under a fork of this handler."""
            return _installing(self, c, calling_site(1))

    def _fork(self) -> Self:
        """A new handler with the same fields."""
        fork = object.__new__(type(self))
        if type(self).__setattr__ is object.__setattr__:
            # Where nobody has asked for the dict, clauses read and rebind fields faster.
            for name, value in self.__dict__.items():
                setattr(fork, name, value)
        else:
            fork.__dict__.update(self.__dict__)
        return fork

    def _with(self, **state: Any) -> Self:
        """A fork of this handler with other values in some fields."""
        fork = object.__new__(type(self))
        fork.__dict__.update(self.__dict__)
        fork.__dict__.update(state)
        return fork

    def _raised(self, error: BaseException) -> Any:
        """The answer for an exception of one of the classes in `_catches`."""
        raise error

    def __repr__(self) -> str:
        fields = [f"{k}={v!r}" for k, v in self.__dict__.items() if not k.startswith("_")]
        if self._at is not type(self)._effect and self._at is not None:
            fields.append(f"at={self._at.__name__}")
        return f"{type(self).__name__}({', '.join(fields)})"


class ParHandler(Handler[A, F]):
    """Base of handlers with a traverse clause: what they do around a parallel `for`.

    `traverse(self, n, loop, k)`: `loop(start)` runs the loop, each iteration under its own fork of
    the handler, and answers the iterations' answers in index order; `start(i)` is the handler to
    start iteration i with; `k(values)` runs the rest with the loop's plain values.
    """

    if MYPY:

        def handle(self, c: Eff[E, R], /) -> Eff[Any, Any]:
            """Run `c` under a fork of this handler."""
    elif TYPE_CHECKING:

        def handle(self: _Clauses[A, R, R2], c: Eff[A | B, R], /) -> Eff[B | F, R2]:
            """Run `c` under a fork of this handler."""

    if TYPE_CHECKING:

        def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
            """Run the loop, then the rest."""


class BasicHandler(ParHandler[A, F]):
    """A handler with answering clauses only and no state that changes: its traverse is given."""

    if TYPE_CHECKING:

        def ret(self, x: R, /) -> R:
            """The answer is the result."""

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the loop, then the rest: each iteration's answer is its value."""
        values = yield from loop()
        return (yield from k(values))


class CollectHandler(ParHandler[A, F]):
    """A handler that says how the iterations' answers become plain values, by `collect`."""

    def collect(self, answers: list[Any]) -> Sequence[Any]:
        """The loop's plain values; what the rest is to start with is rebound in `self`."""
        raise NotImplementedError

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the loop, collect, then the rest."""
        answers = yield from loop()
        try:
            values = self.collect(answers)
        except LoopValuesError as error:
            if error.at.line:
                raise
            fix = error.fix
            raise LoopValuesError(error.what, at=loop.place, fix=fix) from None
        return (yield from k(values))


class SplitHandler(ParHandler[A, F]):
    """A handler that says with which state each iteration starts: `split`; answers stay plain."""

    if TYPE_CHECKING:

        def ret(self, x: R, /) -> R:
            """The answer is the result."""

    def split(self, n: Any) -> Callable[[Any], Self] | Sequence[Self]:
        """The handler of each iteration; the state of the rest is rebound in `self`."""
        raise NotImplementedError

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Split the state, run the loop, then the rest."""
        values = yield from loop(self.split(n))
        return (yield from k(values))


_BASES = (Handler, ParHandler, BasicHandler, CollectHandler, SplitHandler)


def _bases_of(cls: type[Handler[Any, Any]]) -> list[type]:
    """The bases of `cls` that are defined here."""
    return [base for base in cls.__mro__ if base in _BASES]


def _is_unpickled() -> bool:
    """Whether cloudpickle makes the class: first empty, then it gets what was checked before."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "types":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).startswith("cloudpickle.")


def _define_handler(cls: type[Handler[Any, Any]], effects: tuple[type[Effect], ...]) -> None:
    names = {name for base in _bases_of(cls) for name in vars(base) if not name.startswith("_")}
    names |= HANDLER_METHODS
    cls._clauses = collect_clauses(cls, effects, names)
    check_defined_once(cls, names | cls._clauses.keys())
    check_shapes(cls, names)
    cls._has_multi = any(clause.kind == MULTI for clause in cls._clauses.values())
    ret = bare(cls.ret)
    cls._ret = None if ret is Handler.ret else staticmethod(ret)
    cls._ret_is_generator = inspect.isgeneratorfunction(ret)
    if cls.__init__ is not object.__init__:
        parameters = list(inspect.signature(cls.__init__).parameters)
        cls._at_position = parameters.index("at") - 1 if "at" in parameters else -1
    traverse = _traverse_clause(cls)
    cls._traverse = None if traverse is None else staticmethod(traverse)
    if cls.__module__.split(".")[0] != "peffects":  # tests check ours, once
        check_state(cls)
    check_given(cls, CollectHandler, "collect")
    check_given(cls, SplitHandler, "split")


def check_state(cls: type[Handler[Any, Any]]) -> None:
    """Find out what loops lose of the state of forks, and refuse clauses that change that."""
    ret = None if cls._ret is None else bare(cls.ret)
    if issubclass(cls, BasicHandler):
        check_basic(cls, cls._clauses, ret)
    elif issubclass(cls, CollectHandler) and ret is None:
        check_collected(cls, cls._clauses.values())
    kept = frozenset() if ret is None else fields_read(cls, ret)
    cls._losing = None
    if issubclass(cls, ParHandler) and not issubclass(cls, SplitHandler) and kept is not None:
        base = next(base for base in _bases_of(cls) if base is not Handler).__name__
        which = " whose `ret` leaves that out" if ret else " without `ret`"
        why = f"is a {base}{'' if base == 'BasicHandler' else which}"
        changed = fields_set(cls, [clause.function for clause in cls._clauses.values()])
        cls._losing = Losing(why, kept, changed is not None and changed <= kept)


def _traverse_clause(cls: type[Handler[Any, Any]]) -> Callable[..., Any] | None:
    traverse = getattr(cls, "traverse", None)
    if traverse is None and issubclass(cls, ParHandler):
        raise HandlerDefinitionError(
            f"handler `{cls.__name__}` is a ParHandler without traverse clause.",
            at=caller(),
            fix="Define `def traverse(self, n, loop, k)`, or derive from `BasicHandler`,"
            " `CollectHandler` or `SplitHandler`; from `Handler` if it is sequential.",
        )
    if traverse is None:
        return None
    if not issubclass(cls, ParHandler):
        raise HandlerDefinitionError(
            f"handler `{cls.__name__}` has a traverse clause, but is no ParHandler.",
            at=of_code(traverse.__code__),
            fix=f"Write `class {cls.__name__}(ParHandler[...])`.",
        )
    traverse = bare(traverse)
    if not inspect.isgeneratorfunction(traverse):
        raise HandlerDefinitionError(
            f"the traverse clause of `{cls.__name__}` contains no `yield from`.",
            at=of_code(traverse.__code__),
            fix="Write `answers = yield from loop()` and `return (yield from k(values))`.",
        )
    return traverse


def _check_instance(cls: type[Handler[Any, Any]], at: object) -> type[Effect]:
    """The effect of the handler that `at` is a named instance of."""
    for effect in cls._effects:
        if isinstance(at, type) and issubclass(at, effect):
            return effect
    names = " or ".join(f"`{effect.__name__}`" for effect in cls._effects) or "any effect"
    base = cls._effects[0].__name__ if cls._effects else "Effect"
    raise HandlerDefinitionError(
        f"`{cls.__name__}` cannot handle `{getattr(at, '__name__', at)}`: it is no named"
        f" instance of {names}.",
        at=caller(),
        fix=f"A named instance is a subclass: `class Name({base})`.",
    )


class Handled(Computation):
    """A computation under a handler; the machine installs a fork of it, unless it is `unshared`.

    `spares` are the markers of handlers that stood in its place before, as in a loop; `watch` says
    what has to hold of the handler at its end.
    """

    __slots__ = ("computation", "handler", "site", "spares", "unshared", "watch")
    _tag = HANDLE

    def __init__(
        self,
        handler: Handler[Any, Any],
        computation: Any,
        site: Site | SrcInfo,
        unshared: bool = False,
        spares: Spares | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.handler = handler
        self.computation = computation
        self.site = site
        self.unshared = unshared
        self.spares = spares
        self.watch = watch

    def __reduce__(self) -> tuple[object, ...]:
        performed(self)
        return Handled, (self.handler, self.computation, place_of_site(self.site))

    def _name(self) -> str:
        return f"handle({type(self.handler).__name__}(...), ...)"

    def __repr__(self) -> str:
        return f"<handle({self.handler!r}, {self.computation!r}), not performed>"


def _installing(h: Any, c: Any, site: Site) -> Handled:
    if not isinstance(h, Handler) or h._at is None:
        name = getattr(h, "__name__", repr(h))
        hint = (
            f"Make an instance: `handle({name}(...), ...)`."
            if isinstance(h, type)
            else ("Write `handle(handler, computation)`.")
        )
        raise NotAComputationError(
            f"`handle` takes a handler first, and was given {h!r}.", at=caller(), fix=hint
        )
    check_computation(c, "handle")
    handled = Handled(h, c, site)
    if NEWEST.last is c:  # it goes with the one around it
        NEWEST.last = handled
        return handled
    if isinstance(c, Computation):
        performed(c)
    return made(handled)


if MYPY:

    def handle(h: Handler[Any, Any], c: Eff[E, R], /) -> Eff[Any, Any]:
        """Run `c` under a fork of this handler."""
elif TYPE_CHECKING:

    @overload
    def handle(h: _Exactly[A, R, R2, F], c: Eff[A, R], /) -> Eff[F, R2]: ...
    @overload
    def handle(h: _HandlesAlone[C, R2], c: C, /) -> R2: ...
    @overload
    def handle(h: _Handles[C, R2], c: C, /) -> R2: ...
    def handle(h: Any, c: Any, /) -> Any:
        """Run computation `c` under a fork of handler `h`."""
else:

    def handle(h, c, /):
        """Run computation `c` under a fork of handler `h`: handles the effect that `h` names.

        It is a computation itself, whose result is the handler's answer, often (state, result).
        Operations of other effects go to handlers further out.  Raises NotAComputationError, which
        says what to write, where a handler class or a function is given instead.
        """
        return _installing(h, c, calling_site(1))


def handler(operation: type[Operation[A, Any]], answer: Callable[[Any], Any]) -> BasicHandler[A]:
    """A small handler with one answering clause: `handler(Log, lambda op: None)`.

    The effect must have that one operation only; `answer` takes the operation.
    """
    effect = operation._effect

    def clause(self: object, op: Any) -> Any:
        return answer(op)

    namespace = {operation._clause: clause, "__module__": __name__}
    name = f"handler_of_{operation._clause}"
    made: Any = type(name, (BasicHandler,), namespace | {"_effects": (effect,)})
    return made()  # type: ignore[no-any-return]
