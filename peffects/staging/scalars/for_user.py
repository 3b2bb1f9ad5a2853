"""What Python does with symbols on behalf of the user: its operators, functions of its libraries.

`x == y` and `divmod(x, 7)` in a kernel are Python's own, which asks the symbols.  They are asked
here and nowhere else in the package (`tests/symbol_guard.py`), so it is also here that what Python
says against them becomes an error with a code and the user's line.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from peffects.errors import KernelTypeError, PeffectsError
from peffects.machine.checking.locations import is_pythons, speaks_for_users
from peffects.parallel.index_sets.index_set import is_symbol
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.scalars.held_symbols import holds_symbol
from peffects.staging.scalars.symbols import Tracer
from peffects.staging.tracing.trace import current, here

__all__ = ["for_user", "has_symbols", "remainder", "what"]

_RAISED = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, NotImplementedError)
_DEEPEST = 3
_OURS = re.compile(r"'?\b[A-Z]\w*Tracer\b'?(?: object)?")


@speaks_for_users
def for_user(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, as the user wrote it; of symbols, no raw error of Python's."""
    try:
        return function(*args, **kwargs)
    except PeffectsError:
        raise
    except _RAISED as error:
        given = (*args, *kwargs.values(), getattr(function, "__self__", None))
        if current() is None or not is_pythons(error) or not _concerns_symbols(given):
            raise
        raise KernelTypeError(
            f"`{_name_of(function)}` does not take values of the kernel so: {_in_words(error)}.",
            at=here(),
            fix="Kernels compute on numbers and tables: use operators, functions of `math`, numpy "
            "and `pe`; what needs other types belongs outside the kernel.",
        ) from error


def what(value: object) -> str:
    """What a value is, for messages: never in names of ours."""
    return value.what() if isinstance(value, Tracer) else f"a {type(value).__name__}"


def _in_words(error: Exception) -> str:
    """The text of an error of Python's, without our names for what it was given."""
    return _OURS.sub("a symbol", str(error))


def _concerns_symbols(given: Iterable[object]) -> bool:
    """Whether a call was given symbols, or iterators that go through some."""
    iterators = (value for value in given if isinstance(value, Iterator))
    return has_symbols(given) or any(map(holds_symbol, iterators))


def remainder(left: Any, right: Any) -> Any:
    """`left % right`, which of a text is one with values in it."""
    if isinstance(left, str | bytes) and has_symbols((right,)):
        raise KernelTypeError(
            "`%` puts values of the kernel into a text, which are known only when it runs.",
            at=here(),
            fix="Write an f-string, which checks and `print` take: `f'{x:.3f}'`.",
        )
    return for_user(operator.mod, left, right)


def has_symbols(values: Iterable[object], depth: int = 0) -> bool:
    """Whether one of `values` is a symbol, or a container that holds one."""
    for value in values:
        if is_symbol(value) or isinstance(value, Packed):
            return True
        if depth < _DEEPEST and has_symbols(_inside(value), depth + 1):
            return True
    return False


def _inside(value: object) -> Iterable[object]:
    """What a container holds."""
    match value:
        case list() | tuple() | set() | frozenset():
            return value
        case dict():
            return value.values()
        case slice():
            return value.start, value.stop, value.step
    return ()


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
