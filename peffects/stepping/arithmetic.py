"""Operators in a debugging run: Python's and numpy's, where these are not other than a kernel's.

Bools are numbers, in arrays too; tables are values, which `+=` does not change in place; the
division of integers by zero is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from peffects.errors import DivisionError
from peffects.machine.checking.locations import speaks_for_users
from peffects.staging.tracing.trace import here
from peffects.stepping.values import as_computed

__all__ = ["Arithmetic"]

_OPERATE: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "**": operator.pow,
    "@": operator.matmul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_IN_PLACE: dict[str, Callable[..., Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "**": operator.ipow,
    "@": operator.imatmul, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
    "<<": operator.ilshift, ">>": operator.irshift,
}  # fmt: skip
_OF_BOOLS = frozenset("&|^@")
_SIGNS: dict[str, Callable[..., Any]] = {
    "+": operator.pos, "-": operator.neg, "~": operator.invert
}  # fmt: skip


class Arithmetic:
    """The hooks of operators."""

    def places(self) -> list[str]:
        """The iterations that are running, innermost first, for messages."""
        raise NotImplementedError

    @speaks_for_users
    def operate(self, symbol: str, x: Any, y: Any) -> Any:
        """`x + y` and the like."""
        if symbol in ("/", "//", "%"):
            return self._quotient(symbol, x, y)
        if symbol not in _OF_BOOLS and _is_bool(x) and _is_bool(y):
            x, y = _as_numbers(x), _as_numbers(y)
        elif symbol == "**" and type(y) is int and _is_bool(x):
            x = _as_numbers(x)  # of which numpy makes int8
        return _OPERATE[symbol](x, y)

    @speaks_for_users
    def _quotient(self, symbol: str, x: Any, y: Any) -> Any:
        """`x / y`, `x // y`, `x % y`: integers are tested, floats follow IEEE 754."""
        if symbol != "/" and _are_whole(x, y) and _any_zero(x, y):
            raise DivisionError(
                "integer division by zero.",
                at=here(),
                notes=self.places(),
                fix="Test the divisor: `x // d if d != 0 else 0`.",
            )
        if isinstance(x, int | float) and isinstance(y, int | float) and y == 0:
            return float(_OPERATE[symbol](np.float64(x), np.float64(y)))
        return as_computed(_OPERATE[symbol](x, y))

    @speaks_for_users
    def quotient_and_rest(self, *operands: Any, **options: Any) -> Any:
        """`divmod(x, y)`; a wrong call is Python's to refuse."""
        if len(operands) != 2 or options:
            return divmod(*operands, **options)  # type: ignore[misc]  # it raises
        return self.operate("//", *operands), self.operate("%", *operands)

    @speaks_for_users
    def power(self, *operands: Any, **options: Any) -> Any:
        """`pow(x, y)`; a wrong call, and a modulus, are Python's."""
        if len(operands) != 2 or options:
            return pow(*operands, **options)
        return self.operate("**", *operands)

    @speaks_for_users
    def signed(self, symbol: str, value: Any) -> Any:
        """`+x` and `-x`; `~x`, of a bool its opposite."""
        if symbol == "~":
            return not value if isinstance(value, bool) else _SIGNS[symbol](value)
        return _SIGNS[symbol](_as_numbers(value) if _is_bool(value) else value)

    @speaks_for_users
    def augment(self, symbol: str, value: Any, other: Any) -> Any:
        """The value of `value += other`; a table is another one then, which nobody else sees."""
        symbol = symbol.removesuffix("=")
        if symbol in _IN_PLACE and not isinstance(value, np.ndarray | np.generic):
            return _IN_PLACE[symbol](value, other)
        return self.operate(symbol, value, other)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or getattr(value, "dtype", None) == np.bool_


def _as_numbers(value: Any) -> Any:
    """Bools as integers, in arrays too: Python's bools are numbers, numpy's are not."""
    return value.astype(np.int64) if isinstance(value, np.ndarray | np.bool_) else value


def _are_whole(x: Any, y: Any) -> bool:
    numbers = int | np.integer | np.bool_ | np.ndarray
    if not (isinstance(x, numbers) and isinstance(y, numbers)):
        return False
    return np.result_type(x, y).kind in "biu"


def _any_zero(x: Any, y: Any) -> bool:
    if not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray):
        return bool(y == 0)
    return bool(np.any(y == 0)) and np.broadcast(x, y).size > 0
