"""Operators, `len`, `in`, truth and the like on objects of the user's classes.

Python calls a special method by itself, not through the hooks: what the method reads would not be
recorded, and its control flow not be staged.  So in a trace such a method is called like any other
function of the user's.  Values without special methods that a user wrote stay Python's affair.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.parallel.index_sets.index_set import IndexSet
from peffects.remembered import remembered
from peffects.staging.loops.ranges import SymbolicRange, is_in_range
from peffects.staging.rewriting.rewritten import is_users
from peffects.staging.scalars.for_user import for_user, has_symbols, remainder
from peffects.staging.scalars.symbols import compare, either, is_symbolic, is_whole, lift
from peffects.staging.tracing.trace import current, here

__all__ = ["COMPARE", "SpecialMethods"]

Function = Callable[..., object]

_ARITHMETIC: dict[str, tuple[Callable[[Any, Any], object], str, str]] = {
    symbol: (operation, f"__{name}__", f"__r{name}__")
    for symbol, operation, name in [
        ("+", operator.add, "add"), ("-", operator.sub, "sub"), ("*", operator.mul, "mul"),
        ("/", operator.truediv, "truediv"), ("//", operator.floordiv, "floordiv"),
        ("%", remainder, "mod"), ("**", operator.pow, "pow"), ("@", operator.matmul, "matmul"),
        ("&", operator.and_, "and"), ("|", operator.or_, "or"), ("^", operator.xor, "xor"),
        ("<<", operator.lshift, "lshift"), (">>", operator.rshift, "rshift"),
    ]
}  # fmt: skip
COMPARE: dict[str, tuple[Callable[[Any, Any], object], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"), "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"), ">=": (operator.ge, "__ge__", "__le__"),
    "==": (operator.eq, "__eq__", "__eq__"), "!=": (operator.ne, "__ne__", "__ne__"),
}  # fmt: skip
_UNARY: dict[str, tuple[Callable[[Any], object], str]] = {
    "-": (operator.neg, "__neg__"), "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}  # fmt: skip
_CALLS: dict[object, str] = {
    len: "__len__", abs: "__abs__", int: "__int__", float: "__float__", round: "__round__",
    reversed: "__reversed__", divmod: "__divmod__", iter: "__iter__", next: "__next__",
}  # fmt: skip
_CONVERSIONS = (int, float)


@remembered
def _is_ours_or_builtin(kind: type) -> bool:
    """Whether no method of a class is a user's: so it is with most operands."""
    return kind.__module__.partition(".")[0] in ("builtins", "numpy", "peffects")


def _is_written_by_user(kind: type, name: str) -> bool:
    """Whether the method `name` of a class is a function of the user's."""
    if _is_ours_or_builtin(kind):
        return False
    for base in kind.__mro__:
        if name in vars(base):
            method = vars(base)[name]
            return isinstance(method, FunctionType) and is_users(method)
    return False


class SpecialMethods(ABC):
    """The hooks of what Python does by special methods."""

    @abstractmethod
    def attribute(self, owner: object, name: str) -> object:
        """`owner.name`, recorded."""

    @abstractmethod
    def callee(self, function: Function) -> Function:
        """What is called in place of `function`."""

    def special(self, owner: object, name: str) -> Function | None:
        """The special method `name` of `owner`, if a trace is going on and a user wrote it."""
        if current() is None or not _is_written_by_user(type(owner), name):
            return None
        method: Any = self.attribute(owner, name)
        return self.callee(method)

    def operate(self, symbol: str, left: object, right: object) -> object:
        """`left + right` and its like."""
        return self._binary(symbol, *_ARITHMETIC[symbol], left, right)

    def compare_two(self, symbol: str, left: object, right: object) -> object:
        """`left < right` and its like."""
        operation, name, reflected = COMPARE[symbol]
        if symbol == "!=" and not any(self.special(value, name) for value in (left, right)):
            equals = self.special(left, "__eq__") or self.special(right, "__eq__")
            if equals is not None:  # Python makes `!=` from it
                return self.not_(self.compare_two("==", left, right))
        return self._binary(symbol, operation, name, reflected, left, right)

    @abstractmethod
    def not_(self, value: object) -> object:
        """`not value`."""

    def _binary(
        self,
        symbol: str,
        operation: Callable[[Any, Any], object],
        name: str,
        reflected: str,
        left: object,
        right: object,
    ) -> object:
        if self.special(left, name) is None and self.special(right, reflected) is None:
            return for_user(operation, left, right)
        tries = [(self._method(left, name), right), (self._method(right, reflected), left)]
        if type(right) is not type(left) and issubclass(type(right), type(left)):
            tries.reverse()
        for method, other in tries:
            result = NotImplemented if method is None else method(other)
            if result is not NotImplemented:
                return result
        if symbol in ("==", "!="):
            return (left is right) == (symbol == "==")
        raise TypeError(
            f"unsupported operand types for {symbol}: {type(left).__name__!r} and "
            f"{type(right).__name__!r}"
        )

    def _method(self, owner: object, name: str) -> Function | None:
        found = self.special(owner, name)
        if is_symbolic(owner):
            return None  # it computes with numbers only: the other side knows
        if found is None and hasattr(type(owner), name):
            return functools.partial(getattr(type(owner), name), owner)
        return found

    def negate(self, symbol: str, value: object) -> object:
        """`-value`, `+value`, `~value`."""
        operation, name = _UNARY[symbol]
        method = self.special(value, name)
        return for_user(operation, value) if method is None else method()

    def contains(self, value: object, container: object) -> object:
        """`value in container`."""
        method = self.special(container, "__contains__")
        if method is not None:
            return self.truth(method(value))
        if current() is None or not has_symbols((value, container)):
            return value in self.iterate(container)  # type: ignore[operator]
        if isinstance(container, range | SymbolicRange):
            return is_in_range(value, container)
        if not isinstance(container, list | tuple | set | frozenset | dict):
            return for_user(operator.contains, self.iterate(container), value)
        found: object = False
        for item in container:
            found = either(found, item is value or self._same(item, value))
        return found

    def _same(self, item: object, value: object) -> object:
        """`item == value`, as `in` asks it."""
        same = self.truth(self.compare_two("==", item, value))
        if is_whole(same):
            lift(same)  # raises: the truth of a whole table is not one
        return same if is_symbolic(same) else bool(same)

    def truth(self, value: object) -> object:
        """What is true or false in place of `value`, in a condition."""
        for name in ("__bool__", "__len__"):
            method = self.special(value, name)
            if method is not None:
                return method()
        if isinstance(value, IndexSet) and value.is_symbolic:
            return compare(op.NE, value.size, 0)
        return value

    def iterate(self, iterable: object) -> object:
        """`iterable`, as what `for` goes through."""
        method = self.special(iterable, "__iter__")
        found = iterable if method is None else method()
        if current() is not None and _is_written_by_user(type(found), "__next__"):
            raise KernelTypeError(
                f"an iterator of the class {type(found).__name__} is used in a kernel.",
                at=here(),
                fix="What its `__next__` reads would not be seen: loop over a list or `range`.",
            )
        return found

    def call_special(self, function: Function) -> Function | None:
        """What is called for `len`, `abs`, `float` and so on, which call special methods."""
        name = _CALLS.get(function)
        if name is None:
            return None

        def call(*args: object, **kwargs: object) -> object:
            method = self.special(args[0], name) if args else None
            if method is None:
                if name == "__iter__" and args:
                    args = (self.iterate(args[0]), *args[1:])
                return for_user(self.original(function), *args, **kwargs)
            value = method(*args[1:], **kwargs)
            if function in _CONVERSIONS:
                return for_user(self.original(function), value)
            return value

        return call

    @abstractmethod
    def original(self, function: Function) -> Function:
        """What is called for a builtin on values without special methods of the user's."""

    def each_of(self, values: Iterable[object]) -> list[object]:
        """Arguments of a library's function: what it calls is called as kernels call it."""
        return [
            self.callee(value) if isinstance(value, FunctionType) and is_users(value) else value
            for value in values
        ]
