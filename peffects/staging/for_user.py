"""What Python does with symbols on behalf of the user: its operators, functions of its libraries.

`x == y` and `divmod(x, 7)` in a kernel are Python's own, which asks the symbols.  They are asked
here and nowhere else in the package (`tests/symbol_guard.py`), so it is also here that what Python
says against them becomes an error with a code and the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from peffects.errors import KernelTypeError, PeffectsError
from peffects.places import speaks_for_users
from peffects.staging.scalars import is_symbolic
from peffects.staging.trace import current, here, is_internal

__all__ = ["for_user", "has_symbols"]

_RAISED = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, NotImplementedError)
_DEEPEST = 3


@speaks_for_users
def for_user(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, as the user wrote it; of symbols, no raw error of Python's."""
    try:
        return function(*args, **kwargs)
    except PeffectsError:
        raise
    except _RAISED as error:
        given = (*args, *kwargs.values(), getattr(function, "__self__", None))
        if current() is None or not _is_ours(error.__traceback__) or not has_symbols(given):
            raise
        raise KernelTypeError(
            f"`{_name_of(function)}` does not take values of the kernel so: {error}.",
            at=here(),
            fix="Kernels compute on numbers and tables: use operators, functions of `math`, numpy "
            "and `pe`; what needs other types belongs outside the kernel.",
        ) from error


def has_symbols(values: Iterable[object], depth: int = 0) -> bool:
    """Whether one of `values` is a symbol, or a container that holds one."""
    for value in values:
        if is_symbolic(value):
            return True
        inner = value.values() if isinstance(value, dict) else value
        holds = isinstance(value, list | tuple | set | frozenset | dict)
        if holds and depth < _DEEPEST and has_symbols(inner, depth + 1):  # type: ignore[arg-type]
            return True
    return False


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether an error was raised by Python, by numpy or by us: in no function of the user's."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or is_internal(trace.tb_frame.f_code.co_filename)
