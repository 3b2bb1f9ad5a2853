"""What our own kernels are made with: functions that are rewritten like a user's.

A `kernel_function` is staged in a kernel that calls it, and runs as a kernel of its own elsewhere.
Errors in it are told at the user's line, as everywhere.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from peffects.errors import KernelTypeError, PeffectsError
from peffects.ir import primitives as op
from peffects.machine.checking.locations import show_users_frames
from peffects.staging.arrays.whole_tables import matched
from peffects.staging.loops.ops import run_outside
from peffects.staging.scalars.symbols import binary, convert, is_whole, lift, to_bool
from peffects.staging.structures.accumulators import as_table
from peffects.staging.tracing.trace import current, here, staging

__all__ = ["as_floats", "kernel_function", "matrix", "number_like", "require", "vector_or_matrix"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel_function(function: Callable[P, R]) -> Callable[P, R]:
    """A function of ours as a loop operation whose source is rewritten.

    Parameters that have defaults choose the program, and are no values of it.
    """
    signature = inspect.signature(function)
    defaults = {p.name for p in signature.parameters.values() if p.default is not p.empty}

    @functools.wraps(function)
    def staged_or_run(*args: P.args, **kwargs: P.kwargs) -> Any:
        if current() is not None:
            return staging().inputs.resolve(function)(*args, **kwargs)
        try:
            given = signature.bind(*args, **kwargs).arguments
            flags = {name: value for name, value in given.items() if name in defaults}
            values = tuple(value for name, value in given.items() if name not in defaults)
            return run_outside(function, values, {}, flags)
        except BaseException as error:
            show_users_frames(error)
            raise

    return staged_or_run


def require(
    holds: object, error: type[PeffectsError], text: str, *operands: object, fix: str
) -> None:
    """Stop the kernel with `error`, when it runs, unless the condition holds."""
    atoms = tuple(lift(operand).atom for operand in operands)
    staging().check(to_bool(holds), error, text, atoms, fix)


def as_floats(x: Any) -> Any:
    """A table of integers as float64; floats as they are."""
    table = as_table(x)
    return table if table.type.elem.is_float else binary(op.DIV, table, 1)


def number_like(x: Any, value: float) -> Any:
    """A number of the type of the elements of a table."""
    return convert(value, as_table(x).type.elem)


def matrix(operation: str, a: Any, square: bool = False) -> Any:
    """`a`, which must be a matrix; the two axes of a square one become one index set."""
    if not is_whole(a) or as_table(a).ndim != 2:
        shape = f"a table with {as_table(a).ndim} axes" if is_whole(a) else "a number"
        raise KernelTypeError(
            f"`{operation}` takes one matrix, not {shape}.",
            at=here(),
            fix=f"For a stack of matrices: `pe.table(lambda i: pe.linalg.{operation}(a[i]))`.",
        )
    table = as_table(a)
    if square:
        matched(*table.index_sets)
    return table


def vector_or_matrix(operation: str, a: Any, b: Any) -> Any:
    """The right-hand side `b` of a system with the matrix `a`, as columns."""
    if not is_whole(b) or as_table(b).ndim > 2:
        raise KernelTypeError(
            f"`{operation}` takes a vector or a matrix as its right-hand side.",
            at=here(),
            fix="`pe.linalg.solve(a, b)` with b of shape (n,) or (n, m).",
        )
    table = as_table(b)
    matched(as_table(a).index_sets[0], table.index_sets[0])
    return table if table.ndim == 2 else table[:, None]
