"""Effects, operations and computations: what effectful programs are made of.

An effect is a class that rows name; an operation belongs to an effect and is a frozen dataclass;
a computation is a description of work that nothing has performed yet.  `yield from c` performs `c`:
iterating a computation yields one pair `(tag, computation)` to the machine, and the machine sends
the answer back.  It never sends a bare `None` (it sends `NONE` for it), so a computation that a
`for`, an unpacking or `list` iterates by mistake notices.  Layer 1.  Next: `handler.py`.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import re
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import GeneratorType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Never,
    NoReturn,
    ParamSpec,
    Self,
    TypeAlias,
    cast,
    dataclass_transform,
    final,
    get_args,
    get_origin,
)

from peffects.errors import MissingYieldFromError, NotAComputationError, OperationDefinitionError
from peffects.machine.checking.never_performed import (
    NEWEST,
    Canary,
    crowded,
    late,
    look_at_new,
    made,
    performed,
)
from peffects.machine.handling.operation_classes import OperationType
from peffects.source import UNKNOWN, SrcInfo, caller, of_code

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar

__all__ = ["Eff", "Effect", "Operation", "Par", "effectful", "once", "shared"]

E = TypeVar("E")
R = TypeVar("R")
A = TypeVar("A")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")

Eff: TypeAlias = Generator[E, object, R]
"""A computation with the effects `E` and the result `R`."""


class Tag:
    """What kind of thing a computation asks of the machine."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


CALL: Final = Tag("CALL")
PERFORM: Final = Tag("PERFORM")
HANDLE: Final = Tag("HANDLE")
LOOP: Final = Tag("LOOP")
RESUME: Final = Tag("RESUME")
DROP: Final = Tag("DROP")
ONCE: Final = Tag("ONCE")
SHARE: Final = Tag("SHARE")
SCOPE: Final = Tag("SCOPE")

HANDLER_METHODS: Final = frozenset({"ret", "traverse", "handle", "handles"})
"""Public names of every handler that are no operation clauses."""


class _NoneAnswer:
    """The type of `NONE`."""

    def __repr__(self) -> str:
        return "NONE"


NONE: Final = _NoneAnswer()
"""What the machine sends for the answer `None`."""

_FIX = "Perform it: `x = yield from ...`; then use x."


class Computation:
    """Base of all descriptions of work; performed by `yield from`, by the machine only."""

    __slots__ = ("_canary",)
    _tag: ClassVar[Tag]
    _canary: Canary | None

    def __iter__(self) -> Generator[Any, Any, Any]:
        performed(self)
        answer = yield self._tag, self
        if answer is None:
            self._misused("a loop, an unpacking or a call iterates over")
        return None if answer is NONE else answer

    def _name(self) -> str:
        """How a message calls it that is not to call anything of the user's."""
        return type(self).__name__

    def _misused(self, how: str) -> NoReturn:
        performed(self)  # this is told now
        raise MissingYieldFromError(
            f"missing `yield from`: {how} {self!r}, which is not performed yet.",
            at=caller(),
            fix=_FIX,
        )

    def __bool__(self) -> NoReturn:
        self._misused("a condition tests")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Computation):
            return self is other
        self._misused("`==` compares")

    def __hash__(self) -> int:
        return object.__hash__(self)


def _refusing(symbol: str) -> Callable[..., NoReturn]:
    def refuse(self: Computation, *_: object) -> NoReturn:
        self._misused(f"`{symbol}` is applied to")

    return refuse


_REFUSED = {
    "+": "add radd", "-": "sub rsub neg", "*": "mul rmul", "/": "truediv rtruediv",
    "//": "floordiv rfloordiv", "%": "mod rmod", "**": "pow rpow", "@": "matmul rmatmul",
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "&": "and rand", "|": "or ror",
    "^": "xor rxor", "<<": "lshift rlshift", ">>": "rshift rrshift", "~": "invert", "abs": "abs",
    "[...]": "getitem setitem delitem", "len": "len", "in": "contains", "(...)": "call",
    "int": "int", "float": "float", "index": "index", "with": "enter", "next": "next",
}  # fmt: skip

for _symbol, _names in _REFUSED.items():
    for _name in _names.split():
        setattr(Computation, f"__{_name}__", _refusing(_symbol))


class Effect:
    """Base of everything that a handler can handle.

    A named instance of an effect is a subclass: `class Fuel(State[int])`.
    """

    _operations: ClassVar[dict[str, type[Operation[Any, Any]]]] = {}
    _named: ClassVar[dict[object, type[Operation[Any, Any]]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._operations = {}
        cls._named = {}  # operations of base effects, for this instance


def operations_of(effect: type[Effect]) -> dict[str, type[Operation[Any, Any]]]:
    """The operations of an effect by clause name, those of its base effects included."""
    found: dict[str, type[Operation[Any, Any]]] = {}
    for base in reversed(effect.__mro__):
        found.update(base.__dict__.get("_operations", {}))
    return found


@final
class Par:
    """In a row: the computation contains a parallel `for`.  It is not an effect to be handled."""


def clause_name(operation: str) -> str:
    """The clause name of an operation class: its name in snake_case, without a final `Op`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operation).lower()
    snake = snake.removesuffix("_op")
    return snake + "_" if keyword.iskeyword(snake) or snake in HANDLER_METHODS else snake


if TYPE_CHECKING:

    class _Performed(Computation, Generator[A, object, T_co]):
        """To type checkers a computation is a generator, so that it is an `Eff`."""

        def __iter__(self) -> Generator[A, object, T_co]: ...
        def send(self, value: object, /) -> A: ...
        def throw(self, *args: Any) -> A: ...
else:

    class _Performed(Computation, Generic[A, T_co]):
        __slots__ = ()


@dataclass_transform(frozen_default=True)
class Operation(_Performed[A, T_co], metaclass=OperationType):
    """Base of operations: `class Flip(Operation[Choose, bool])` belongs to the effect `Choose`.

    A subclass is a frozen dataclass with slots, without a decorator; `yield from Flip()` performs
    it and gives a bool.  Its clause in a handler is called `flip`.
    """

    __slots__ = ()
    _tag = PERFORM
    _effect: ClassVar[type[Effect]]
    _clause: ClassVar[str]
    _never: ClassVar[bool]
    _plain: ClassVar[type[Operation[Any, Any]]]
    _fields: ClassVar[tuple[str, ...]]
    _construct: ClassVar[Callable[..., None]]
    _is_plain: ClassVar[bool]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__dataclass_fields__" in cls.__dict__:  # checked before, and made again with slots
            if "_plain" in cls.__dict__:
                cls._plain = cls._effect._operations[cls._clause] = cls
            return
        named = [b for b in cls.__dict__.get("__orig_bases__", ()) if get_origin(b) is Operation]
        if named:
            _define_operation(cls, *get_args(named[0]))
        elif not hasattr(cls, "_effect"):
            raise OperationDefinitionError(
                f"operation `{cls.__name__}` does not say which effect it belongs to.",
                at=caller(),
                fix=f"Write `class {cls.__name__}(Operation[TheEffect, AnswerType])`.",
            )

    if not TYPE_CHECKING:

        def __iter__(self):
            # As in `Computation`, with the tag known: this is the hottest path of all.
            if NEWEST.last is self:
                NEWEST.last = None
            elif NEWEST.settling or NEWEST.armed:
                late(self)
            answer = yield PERFORM, self
            if answer is None:
                self._misused("a loop, an unpacking or a call iterates over")
            return None if answer is NONE else answer

    @classmethod
    def at(cls, effect: type[Effect]) -> type[Self]:
        """This operation for the named instance `effect` of its effect."""
        if effect is cls._effect:
            return cls
        try:
            return cast("type[Self]", effect._named[cls])
        except (AttributeError, KeyError):
            return cast("type[Self]", _operation_at(cls, effect))

    def __eq__(self, other: object) -> bool:
        if type(self) is type(other):
            return self._values() == cast("Operation[Any, Any]", other)._values()
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __reduce__(self) -> tuple[object, ...]:
        performed(self)  # whoever gets it answers for it
        return _make_operation, (self._plain, self._effect, self._values())

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self._fields])


def operation_name(operation: Operation[Any, Any]) -> str:
    """How messages call an operation: with its instance, where it is not the plain one."""
    name = type(operation).__name__
    if operation._effect is operation._plain._effect:
        return name
    return f"{name} of {operation._effect.__name__}"


def _define_operation(cls: type[Operation[Any, Any]], effect: object, answer: object) -> None:
    origin = get_origin(effect) or effect
    if not (isinstance(origin, type) and issubclass(origin, Effect)):
        raise OperationDefinitionError(
            f"operation `{cls.__name__}` belongs to `{effect}`, which is no effect.",
            at=caller(),
            fix="The first argument of `Operation[...]` is a subclass of `Effect`.",
        )
    cls._effect = origin
    cls._clause = clause_name(cls.__name__)
    cls._never = answer in (Never, NoReturn)
    cls._plain = cls
    known = operations_of(origin).get(cls._clause)
    if known is not None and (known.__module__, known.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):
        raise OperationDefinitionError(
            f"effect `{origin.__name__}` already has an operation with the clause `{cls._clause}`:"
            f" `{known.__qualname__}` of module {known.__module__}.",
            at=caller(),
            fix="Give one of them another name.",
        )
    origin._operations[cls._clause] = cls


def _operation_at(
    cls: type[Operation[Any, Any]], effect: type[Effect]
) -> type[Operation[Any, Any]]:
    """Make the operation for a named instance of its effect, which keeps it."""
    if not issubclass(effect, cls._effect):
        raise OperationDefinitionError(
            f"`{effect.__name__}` is no named instance of"
            f" `{cls._effect.__name__}`, the effect of `{cls.__name__}`.",
            at=caller(),
            fix=f"A named instance is a subclass: `class Name({cls._effect.__name__}[...])`.",
        )
    namespace = {"_effect": effect, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made = cast("type[Operation[Any, Any]]", type(cls.__name__, (cls,), namespace))
    return effect._named.setdefault(cls, made)


def _make_operation(
    plain: type[Operation[Any, Any]], effect: type[Effect], values: tuple[object, ...]
) -> Operation[Any, Any]:
    operation = plain.at(effect)(*values)
    performed(operation)  # it was made elsewhere: here nobody has forgotten anything
    return operation


class Call(Computation):
    """The call of a generator function, which the machine starts in a frame of its own."""

    __slots__ = ("args", "function", "kwargs")
    _tag = CALL

    def __init__(
        self,
        function: Callable[..., Generator[Any, Any, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs

    if not TYPE_CHECKING:

        def __iter__(self):
            # As in `Computation`, with the tag known.
            if NEWEST.last is self:
                NEWEST.last = None
            elif NEWEST.settling or NEWEST.armed:
                late(self)
            answer = yield CALL, self
            if answer is None:
                self._misused("a loop, an unpacking or a call iterates over")
            return None if answer is NONE else answer

    def restart(self, _: object) -> Generator[Any, Any, Any]:
        """Start the call again, for a frame that has to be rebuilt."""
        if self.kwargs:
            return self.function(*self.args, **self.kwargs)
        return self.function(*self.args)

    def __reduce__(self) -> tuple[object, ...]:
        performed(self)
        wrapper = _importable(self.function)
        if wrapper is None:
            return Call, (self.function, self.args, self.kwargs)
        return _call_again, (wrapper, self.args, self.kwargs)

    def _name(self) -> str:
        return f"{getattr(self.function, '__name__', 'computation').lstrip('_')}(...)"

    def __repr__(self) -> str:
        arguments = [repr(a) for a in self.args]
        arguments += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        name = getattr(self.function, "__name__", "computation")
        return f"<{name}({', '.join(arguments)}), not performed>"


def _importable(function: Any) -> Any:
    """What pickle can find by name and was made by `@effectful` from `function`, if there is it."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found if getattr(found, "_pe_generator", None) is function else None


def _call_again(wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    return Call(wrapper._pe_generator, args, kwargs)


class Once(Computation):
    """A thunk that the machine calls; its result is kept as an answer when worlds are replayed."""

    __slots__ = ("thunk",)
    _tag = ONCE

    def __init__(self, thunk: Callable[[], Any]) -> None:
        self.thunk = thunk

    def __repr__(self) -> str:
        return f"<once({self.thunk!r}), not performed>"


def once(thunk: Callable[[], R]) -> Eff[Never, R]:
    """Call `thunk` exactly once, also where the frame is rebuilt for a further world."""
    return cast("Eff[Never, R]", made(Once(thunk)))


class Share(Once):
    """A thunk that makes a context manager, which the machine enters once and exits at its end."""

    __slots__ = ()
    _tag = SHARE

    def __repr__(self) -> str:
        return f"<shared({self.thunk!r}), not performed>"


def shared(make: Callable[[], AbstractContextManager[R]]) -> Eff[Never, R]:
    """Enter the context manager that `make` gives; all worlds share what it gives.

    It is exited at the end of the `run`, or of the iteration of a parallel `for`.
    """
    return cast("Eff[Never, R]", made(Share(make)))


def effectful(function: Callable[P, Eff[E, R]]) -> Callable[P, Eff[E, R]]:
    """Make a generator function effectful: its call is a computation, `yield from` performs it.

    A function without `yield from` may also return a computation, which is then performed.
    """
    generator = function if inspect.isgeneratorfunction(function) else _delegating(function)
    empty: dict[str, Any] = {}
    new = True

    @functools.wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Eff[E, R]:
        nonlocal new
        if new:
            new = False
            look_at_new(function.__code__)
        call = Call(generator, args, kwargs or empty)
        if NEWEST.last is None:
            NEWEST.last = call
        else:
            crowded(call)
        return call  # type: ignore[return-value]

    make._pe_function = function  # type: ignore[attr-defined]
    make._pe_generator = generator  # type: ignore[attr-defined]
    return make


def _delegating(function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    @functools.wraps(function)
    def delegate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        computation = function(*args, **kwargs)
        if not is_computation(computation):
            raise MissingYieldFromError(
                f"`{function.__name__}` is @effectful, but contains no `yield from` and returned"
                f" {computation!r}, which is no computation.",
                at=of_code(function.__code__),
                fix="Perform operations with `yield from`; leave the decorator out where a"
                " function has no effects.",
            )
        return (yield from computation)

    return delegate


def is_computation(value: object) -> bool:
    """Whether `value` is something that `yield from` performs."""
    return isinstance(value, Computation | GeneratorType)


def start(computation: object) -> Generator[Any, Any, Any]:
    """A fresh generator that performs `computation`; a call is performed with that."""
    if type(computation) is Call:
        if NEWEST.last is computation:
            NEWEST.last = None
        elif NEWEST.settling or NEWEST.armed:
            late(computation)
        return computation.function(*computation.args, **computation.kwargs)
    if isinstance(computation, GeneratorType):
        if computation.gi_frame is None:
            raise NotAComputationError(
                f"the generator `{computation.__name__}` has run already, and runs once only.",
                at=of_code(computation.gi_code),
                fix="Decorate its function with @effectful: its call can be performed many times.",
            )
        return computation
    return _perform(computation)


def _perform(computation: Any) -> Generator[Any, Any, Any]:
    return (yield from computation)


def describe_start(computation: object) -> object:
    """What restarts the generator of `start(computation)`: the root of a frame's log."""
    if isinstance(computation, Computation) and not hasattr(computation, "restart"):
        return Call(_perform, (computation,), {})
    return computation


def check_computation(value: object, where: str) -> None:
    """Refuse what is no computation, with the line that should have made one."""
    if is_computation(value):
        return
    name = getattr(value, "__name__", "program")
    hint = f"Call it: `{where}({name}(...))`." if callable(value) else f"Write `{where}(f(...))`."
    raise NotAComputationError(
        f"`{where}` takes a computation, and was given {value!r}.", at=caller(), fix=hint
    )


def _unknown() -> SrcInfo:
    return UNKNOWN


def check_performed(value: object, what: str, place: Callable[[], SrcInfo] = _unknown) -> None:
    """Refuse a computation as a final result: somebody forgot to perform it."""
    if isinstance(value, Computation):
        performed(value)
        raise MissingYieldFromError(
            f"missing `yield from`: the result of {what} is {value!r}, which was never performed.",
            at=place(),
            fix="Write `return (yield from ...)`.",
        )
