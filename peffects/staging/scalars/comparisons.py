"""Comparisons by name, for our own code, where one of two numbers may be a symbol.

Python's `==` asks the symbol, which answers with another symbol: right in a formula, wrong where
our code decides something.  So neither is written with operators in the package, and a guard of the
test session (`tests/symbol_guard.py`) raises where one is.  `for_user.py` is what asks Python on
behalf of the user.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from peffects.ir import primitives as op
from peffects.ir.primitives import Primitive
from peffects.staging.scalars.symbols import compare, is_symbolic

__all__ = ["eq", "ge", "gt", "le", "lt", "ne"]


def _named(
    primitive: Primitive, plain: Callable[[Any, Any], Any], swapped: bool = False
) -> Callable[[Any, Any], Any]:
    def comparison(x: Any, y: Any) -> Any:
        if not is_symbolic(x) and not is_symbolic(y):
            return plain(x, y)
        return compare(primitive, y, x) if swapped else compare(primitive, x, y)

    return comparison


eq = _named(op.EQ, operator.eq)
ne = _named(op.NE, operator.ne)
lt = _named(op.LT, operator.lt)
le = _named(op.LE, operator.le)
gt = _named(op.LT, operator.gt, swapped=True)
ge = _named(op.LE, operator.ge, swapped=True)
