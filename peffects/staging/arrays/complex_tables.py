"""numpy's functions of complex tables, as functions of their real and imaginary parts.

A function that moves elements does the same to both parts, one that is linear in each of two
operands multiplies out, and a few have formulas of their own.  Called by
`numpy_surface/operators.py`; functions that are not here take real tables only, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import F32, F64, Scalar
from peffects.staging.scalars import maths
from peffects.staging.scalars.symbols import binary, compare, conjugate, convert, is_complex
from peffects.staging.structures.array_methods import element_type
from peffects.staging.structures.complex_numbers import (
    OF_PARTS,
    ComplexTable,
    complex_of,
    imaginary_part,
    real_part,
)
from peffects.staging.structures.records import as_tabular
from peffects.staging.tracing.trace import here

__all__ = ["complex_part", "of_dtype", "rule_for"]

_PARTS = {"complex64": F32, "complex128": F64}

Function: TypeAlias = Callable[..., Any]
Caller: TypeAlias = Callable[[Function, Sequence[Any], Mapping[str, Any]], Any]
Rule: TypeAlias = Callable[[Caller, Function, Sequence[Any], Mapping[str, Any]], Any]
"""How a function is made of calls with real operands."""


def complex_part(dtype: Any) -> Scalar | None:
    """The type of the parts of the complex type that `dtype` names; None of other types."""
    try:
        return _PARTS.get(np.dtype(dtype).name)
    except TypeError:
        return None


def of_dtype(value: Any, dtype: Any) -> object:
    """`value.astype(dtype)`; complex numbers become complex ones only."""
    whole = _symbol(value)
    part = complex_part(dtype)
    if part is not None:
        return complex_of(*(convert(half(whole), part) for half in (real_part, imaginary_part)))
    if is_complex_operand(whole):
        raise KernelTypeError(
            f"complex numbers are converted to {np.dtype(dtype).name}.",
            at=here(),
            fix="Take `z.real`, `z.imag` or `abs(z)`.",
        )
    return convert(whole, element_type(dtype))


def is_complex_operand(value: Any) -> bool:
    """Whether `value` is a complex number or table, or a list that holds one."""
    if isinstance(value, tuple | list):
        return any(map(is_complex_operand, value))
    return is_complex(value) or isinstance(as_tabular(value), ComplexTable)


def _symbol(value: Any) -> Any:
    """A captured array as the table that it is in the kernel; other values as they are."""
    whole = as_tabular(value)
    return value if whole is None else whole


def _real(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_real(part) for part in value]
    return real_part(_symbol(value))


def _imaginary(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_imaginary(part) for part in value]
    return imaginary_part(_symbol(value))


def _of_parts(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """f(x + iy) = f(x) + i f(y), where f moves or adds up the elements of its first argument."""
    first, *others = args
    parts = (call(f, (part(first), *others), kwargs) for part in (_real, _imaginary))
    return complex_of(*parts)


def _product(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """f(a + ib, c + id) = f(a, c) - f(b, d) + i (f(a, d) + f(b, c)); real operands lack b or d."""
    names = [arg for arg in args if isinstance(arg, str)]  # of `np.einsum`
    x, y, *others = args[len(names) :]

    def of(left: Any, right: Any) -> Any:
        return call(f, (*names, left, right, *others), kwargs)

    if not is_complex_operand(x):
        return complex_of(of(x, _real(y)), of(x, _imaginary(y)))
    a, b = _real(x), _imaginary(x)
    if not is_complex_operand(y):
        return complex_of(of(a, y), of(b, y))
    c, d = _real(y), _imaginary(y)
    return complex_of(
        binary(op.SUB, of(a, c), of(b, d)),
        binary(op.ADD, of(a, d), of(b, c)),
    )


def _vdot(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    first, second = args
    return _product(call, f, (conjugate(_symbol(first)), second), kwargs)


def _variance(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The mean of |z - mean(z)|**2 is the sum of the variances of both parts."""
    first, *others = args
    return binary(
        op.ADD,
        call(np.var, (_real(first), *others), kwargs),
        call(np.var, (_imaginary(first), *others), kwargs),
    )


def _deviation(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return maths.sqrt(_variance(call, f, args, kwargs))


def _truths(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function of what is not zero."""
    first, *others = args
    return call(f, (compare(op.NE, _symbol(first), 0), *others), kwargs)


def _like(call: Caller, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`np.zeros_like` and its kin, which are complex if their first argument is."""
    first, *fill = args
    if not is_complex_operand(first) or kwargs.get("dtype") is not None:
        return call(f, (_real(first), *fill), kwargs)
    if not fill:  # the imaginary part of ones is zero
        zeros = call(np.zeros_like, (_imaginary(first),), kwargs)
        return complex_of(call(f, (_real(first),), kwargs), zeros)
    parts = ((part(first), part(fill[0])) for part in (_real, _imaginary))
    return complex_of(*(call(f, part, kwargs) for part in parts))


RULES: dict[Function, Rule] = {
    **dict.fromkeys(OF_PARTS, _of_parts),
    **dict.fromkeys(
        (np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack), _of_parts
    ),
    **dict.fromkeys((np.dot, np.inner, np.outer, np.matmul, np.tensordot, np.einsum), _product),
    **dict.fromkeys((np.any, np.all, np.count_nonzero), _truths),
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like, np.full_like), _like),
    np.vdot: _vdot, np.var: _variance, np.std: _deviation,
}  # fmt: skip


def rule_for(function: Function, args: Sequence[Any]) -> Rule | None:
    """How `function` is made of real ones, if there are complex tables or numbers among `args`."""
    rule = RULES.get(function)
    if rule is None or not any(map(is_complex_operand, args)):
        return None
    return rule
