"""Numbers that are part of a program, and not arguments of it.

A number that a kernel is called with is a symbol in it.  Where Python itself needs the number, as
the index of a list or the length of an unrolled loop, the caller says that it is static: then each
value has a program of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

from peffects.errors import KernelTypeError
from peffects.source import caller
from peffects.staging.scalars.symbols import is_symbolic
from peffects.staging.tracing.trace import current, here

__all__ = ["StaticValue", "plain", "static"]

T = TypeVar("T")


class StaticValue:
    """A value that a kernel gets as it is; two are equal if values and types are."""

    __slots__ = ("value",)

    def __init__(self, value: Hashable) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StaticValue)
            and type(self.value) is type(other.value)
            and bool(self.value == other.value)
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __repr__(self) -> str:
        return f"static({self.value!r})"


def static(value: T) -> T:
    """`value` as a static argument of a kernel: `kernel(x, pe.static(3))` gets the 3 itself.

    Each value compiles a program of its own.  Raises KernelTypeError for what can change or is
    known only when the kernel runs: arrays, lists, symbols.
    """
    if is_symbolic(value):
        raise KernelTypeError(
            "a value of the kernel is said to be static.",
            at=here(),
            fix="Static is what is known before the kernel runs: pass `pe.static(3)` to it.",
        )
    if current() is not None:
        return value
    try:
        hash(value)
    except TypeError:
        raise KernelTypeError(
            f"a {type(value).__name__} is said to be static, which can change.",
            at=caller(),
            fix="Give a number, a string or a tuple of such.",
        ) from None
    made: Any = StaticValue(value)
    return made  # type: ignore[no-any-return]


def plain(value: object) -> object:
    """The value that a static one stands for; any other value itself."""
    return value.value if isinstance(value, StaticValue) else value
