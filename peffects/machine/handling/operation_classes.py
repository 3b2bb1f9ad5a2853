"""Operation classes: slotted, frozen dataclasses with a quick constructor.

A program makes an operation each time that it performs one, so its size and its constructor count.
`dataclass(frozen=True)` generates a constructor that calls `object.__setattr__` by name; ours calls
the setters of the slots.  Slots have to be known before the class exists, which a hook such as
`__init_subclass__` comes too late for: hence the one metaclass here.  Layer 1.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from dataclasses import MISSING, Field, dataclass
from types import FunctionType, MemberDescriptorType
from typing import Any, TypeVar, cast

from peffects.machine.checking.never_performed import NEWEST, crowded, look_closely, made

__all__: list[str] = []

C = TypeVar("C", bound=type)


class OperationType(type):
    """Makes each class that derives from `Operation` a slotted, frozen dataclass."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> OperationType:
        """Make the class, and make it again with slots, unless this is that second time."""
        cls = super().__new__(mcls, name, bases, namespace, **kwargs)
        if not any(isinstance(base, OperationType) for base in bases):
            return cls  # the root of them
        if "__dataclass_fields__" in namespace:
            return cls
        return _frozen(cls)


def _frozen(cls: C) -> C:
    has_own = "__init__" in cls.__dict__
    slotted: Any = dataclass(frozen=True, eq=False, slots="__slots__" not in cls.__dict__)(cls)
    if slotted is not cls:
        _rebind_class_cells(cls, slotted)
    slotted._fields = tuple(field.name for field in dataclasses.fields(slotted))
    slotted._construct = slotted.__init__
    slotted._is_plain = not has_own and _is_plain(slotted)
    with_constructor(slotted)
    return cast(C, slotted)


def with_constructor(cls: Any) -> None:
    """Give the class the constructor that its setters and `_construct` make, which is not used yet.

    It refers to the slots of this very class, so that a class that came by pickle needs its own.
    """
    cls.__init__ = cls._construct
    cls.__init__ = _first(cls, _constructor(cls) if cls._is_plain else _noting(cls))


def _noting(cls: Any) -> Any:
    """The constructor of the class, which also notes that an operation was made."""
    construct = cls.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        made(self)

    return __init__


def _first(cls: Any, construct: Any) -> Any:
    """The constructor until it is used: where a class is new to a program, we look closely."""

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = construct
        look_closely()
        construct(self, *args, **kwargs)

    return __init__


def _rebind_class_cells(old: type, new: type) -> None:
    """Let `super()` and `__class__` in the methods mean the class with slots."""
    for value in new.__dict__.values():
        function = getattr(value, "__func__", value)
        for cell in getattr(function, "__closure__", None) or ():
            if cell.cell_contents is old:
                cell.cell_contents = new


def _is_plain(cls: Any) -> bool:
    """Whether all that its constructor does is to set slots from positional parameters."""
    fields = dataclasses.fields(cls)
    parameters = list(inspect.signature(cls.__init__).parameters)[1:]
    return (
        not hasattr(cls, "__post_init__")
        and parameters == list(cls._fields)
        and all(map(_is_plain_field, fields))
        and all(isinstance(getattr(cls, name), MemberDescriptorType) for name in parameters)
    )


def _is_plain_field(field: Field[Any]) -> bool:
    return field.default_factory is MISSING and not field.kw_only


def _constructor(cls: Any) -> FunctionType:
    """A constructor with the signature of the generated one."""
    generated, names = cls.__init__, cls._fields
    setters = {f"_set_{name}": getattr(cls, name).__set__ for name in names}
    setters |= {"_newest": NEWEST, "_crowded": crowded}
    body = [f"    _set_{name}(self, {name})" for name in names]
    body += ["    if _newest.last is None:", "        _newest.last = self"]
    body += ["    else:", "        _crowded(self)"]
    lines = [f"def __init__({', '.join(['self', *names])}):", *body]
    exec(compile("\n".join(lines), __file__, "exec"), setters)  # a frame of ours, not the user's
    made = cast(FunctionType, setters["__init__"])
    made.__defaults__ = generated.__defaults__
    made.__annotations__ = generated.__annotations__
    made.__qualname__ = generated.__qualname__
    return made
