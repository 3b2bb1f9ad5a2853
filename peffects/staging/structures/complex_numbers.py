"""Complex numbers of kernels: pairs of real symbols.

The IR knows real numbers only.  A complex number is its real and its imaginary part, a table of
complex numbers two tables, so optimization, derivatives and code need no rule of their own.
`trees.py` splits arguments and joins results.  The formulas are in `scalars/complex_functions.py`;
here are the symbols, and the table that gives each primitive its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import lit_like
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import F32, Atom
from peffects.staging.scalars import complex_functions as formulas
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.scalars.arithmetic import cast as as_type
from peffects.staging.scalars.complex_functions import Parts, Real
from peffects.staging.scalars.symbols import (
    Arithmetic,
    ScalarTracer,
    conjugate,
    convert,
    is_complex,
    is_symbolic,
    is_whole,
    lift,
    logical,
    make,
    pointwise,
    select,
    test,
    to_bool,
    unary,
    unary_float,
)
from peffects.staging.structures.tables import Item, TableTracer, is_plain
from peffects.staging.structures.tabular import Tabular, make_one, rows
from peffects.staging.tracing.promotion import join, scalar_of, true_division_type
from peffects.staging.tracing.trace import here, staging

__all__ = [
    "OF_PARTS", "ComplexArithmetic", "ComplexTable", "ComplexTracer", "as_complex",
    "complex_of", "imaginary_part", "of_type", "phase", "real_part",
]  # fmt: skip

_MOST_FACTORS = 100
_Number: TypeAlias = "tuple[Real, Real | None]"
"""Real and imaginary part; a real number has no imaginary part, not a zero."""


OF_PARTS: frozenset[Callable[..., Any]] = frozenset(
    {
        np.sum, np.mean, np.cumsum, np.diff, np.transpose, np.swapaxes, np.moveaxis, np.reshape,
        np.ravel, np.expand_dims, np.squeeze, np.flip, np.fliplr, np.flipud, np.roll, np.repeat,
        np.tile, np.take, np.broadcast_to, np.diagonal, np.diag, np.tril, np.triu, np.trace,
    }
)  # fmt: skip
"""numpy's functions of one array that do the same to the real and to the imaginary part."""


class ComplexTracer(Arithmetic):
    """A complex number that is known when the program runs."""

    _pe_complex: ClassVar[bool] = True

    def __init__(self, real: ScalarTracer, imag: ScalarTracer) -> None:
        self.real = real
        self.imag = imag
        self.scope = real.scope

    def what(self) -> str:
        """What it is, for messages."""
        return "a complex number"

    def operand(self) -> Operand:
        """Raises: one number is wanted, and this is two."""
        raise KernelTypeError(
            "a complex number is used where a real one is needed.",
            at=here(),
            fix="Take `z.real`, `z.imag` or `abs(z)`.",
        )

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the number."""
        return np.dtype(np.complex64 if self.real.type == F32 else np.complex128)

    def conjugate(self) -> ComplexTracer:
        """The number with the opposite imaginary part."""
        return ComplexTracer(self.real, -self.imag)

    conj = conjugate

    def _shown(self) -> str:
        return f"<symbol {self.real.atom!r} + {self.imag.atom!r}i>"


class ComplexTable(Tabular, Arithmetic):
    """A table of complex numbers: two tables of the same axes."""

    is_whole = True

    def __init__(self, real: TableTracer, imag: TableTracer) -> None:
        super().__init__((real, imag), real.ndim)
        make_one(self.tables, self.ndim)
        self.real = real
        self.imag = imag

    def what(self) -> str:
        """What it is, for messages."""
        return f"the complex table `{self.name}`"

    def element(self, items: tuple[Item, ...], unchecked: bool = False) -> object:
        """A complex number, or the table of the remaining axes."""
        if not all(map(is_plain, items)):
            return ComplexTable(self.real[items], self.imag[items])
        return complex_of(*rows(self.tables, self.ndim, items, unchecked))

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        return np.dtype(np.complex64 if self.real.type.elem == F32 else np.complex128)

    @property
    def T(self) -> ComplexTable:
        """The table with its axes in reverse order."""
        return ComplexTable(self.real.T, self.imag.T)

    def conjugate(self) -> ComplexTable:
        """The table of the conjugates."""
        return cast(ComplexTable, conjugate(self))

    conj = conjugate

    @property
    def size(self) -> Any:
        """The number of elements, as an int."""
        return self.real.size

    def transpose(self, *axes: Any) -> ComplexTable:
        """The table with its axes in another order; by default reversed."""
        return ComplexTable(self.real.transpose(*axes), self.imag.transpose(*axes))

    def reshape(self, *shape: Any) -> ComplexTable:
        """The same elements in the same order with other axes."""
        return ComplexTable(self.real.reshape(*shape), self.imag.reshape(*shape))

    def astype(self, dtype: Any) -> Any:
        """The table with its numbers converted to another complex type."""
        return staging().inputs.arrays.convert(self, dtype)

    def copy(self) -> ComplexTable:
        """The table itself: nothing changes it."""
        return self

    def flatten(self) -> ComplexTable:
        """All elements along one axis."""
        return ComplexTable(self.real.flatten(), self.imag.flatten())

    def __matmul__(self, other: object) -> Any:
        return staging().inputs.arrays.call(np.matmul, (self, other), {})

    def __rmatmul__(self, other: object) -> Any:
        return staging().inputs.arrays.call(np.matmul, (other, self), {})

    def __getattr__(self, name: str) -> Callable[..., object]:
        """The method that is the function of numpy of its name; KernelTypeError if none is."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a complex table has no attribute {name!r}")
        function = getattr(np, name, None)
        if not callable(function):
            raise KernelTypeError(
                f"`.{name}` of {self.what()}: complex tables in kernels do not have it.",
                at=here(),
                fix="Do it before the kernel, or write it for elements.",
            )
        arrays = staging().inputs.arrays
        return lambda *args, **kwargs: arrays.call(function, (self, *args), kwargs)

    def operand(self) -> Operand:
        """Raises: a table is no number."""
        raise KernelTypeError(
            f"{self.what()} is a whole table, and one number is needed here.",
            at=here(),
            fix="Index it: `z[i]`.",
        )

    def _shown(self) -> str:
        return f"<complex table {self.real.var!r}, {self.imag.var!r}>"


def complex_of(real: Any, imag: Any) -> object:
    """The complex number, table or array of a real and an imaginary part."""
    if isinstance(real, TableTracer) and isinstance(imag, TableTracer):
        return ComplexTable(real, imag)
    if is_symbolic(real) or is_symbolic(imag):
        return pair(real, imag)
    whole = getattr(real, "base", None)
    if isinstance(whole, np.ndarray) and whole is imag.base and _is_whole(whole, real):
        return whole
    joined = np.empty(np.shape(real), np.result_type(real, imag, np.complex64))
    joined.real, joined.imag = real, imag
    if joined.ndim:
        return joined
    python = isinstance(real, float) and not isinstance(real, np.generic)
    return complex(real, imag) if python else joined[()]


def _is_whole(whole: np.ndarray[Any, Any], real: np.ndarray[Any, Any]) -> bool:
    """Whether `real` is the real part of all of `whole`, into which results were written."""
    same = whole.dtype.kind == "c" and whole.shape == real.shape and whole.strides == real.strides
    return same and whole.ctypes.data == real.ctypes.data


def pair(real: Real, imag: Real) -> ComplexTracer:
    """The complex number of two real ones, in the type in which they meet."""
    x, y = lift(real), lift(imag)
    result, weak = join(x.type, x.weak, y.type, y.weak)
    result = true_division_type(result)
    return ComplexTracer(
        make(Operand(as_type(x, result), result, weak)),
        make(Operand(as_type(y, result), result, weak)),
    )


def real_part(value: Any) -> Any:
    """The real part of a number; of a real one, itself."""
    return value.real if is_complex(value) or isinstance(value, ComplexTable) else value


def imaginary_part(value: Any) -> Any:
    """The imaginary part of a number or a table; of real ones, 0."""
    if is_complex(value) or isinstance(value, ComplexTable):
        return value.imag
    return _zero(value) if is_whole(value) else 0.0


@pointwise
def _zero(value: Any) -> Any:
    t = lift(value).type
    return make(Operand(lit_like(0, t), t, False))


def as_complex(real: Any = 0.0, imag: Any = None) -> object:
    """`complex(real, imag)`."""
    if imag is not None and (is_complex(real) or is_complex(imag)):
        raise KernelTypeError(
            "`complex` of two numbers is given a complex one.",
            at=here(),
            fix="Write the sum: `a + 1j * b`.",
        )
    if is_complex(real):
        return pair(real.real, real.imag)
    return pair(real, 0.0 if imag is None else imag)


def of_type(part: type, value: Any) -> ComplexTracer:
    """A number as a complex one whose parts are of type `part`."""
    target = scalar_of(part)
    assert target is not None
    return ComplexTracer(convert(real_part(value), target), convert(imaginary_part(value), target))


def phase(value: Any) -> ScalarTracer:
    """The angle of a number, from -pi to pi."""
    return unary_float(op.ARCTAN2, imaginary_part(value), real_part(value))


# --- arithmetic ----------------------------------------------------------------------------------


def _number(value: Any) -> _Number:
    return (value.real, value.imag) if is_complex(value) else (value, None)


def _as_part(value: Any, part: Any) -> Any:
    """A real operand that is an integer as a float, in the type in which it meets `part`."""
    if is_complex(value) or isinstance(value, int | float):
        return value
    x, y = lift(value), lift(part)
    result, weak = join(x.type, x.weak, y.type, y.weak)
    return value if x.type.is_float else make(Operand(as_type(x, result), result, weak))


def _wide(x: _Number) -> Parts:
    return x[0], 0.0 if x[1] is None else x[1]


def _add(a: _Number, b: _Number) -> Parts:
    if a[1] is None or b[1] is None:
        return a[0] + b[0], b[1] if a[1] is None else a[1]
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: _Number, b: _Number) -> Parts:
    if b[1] is None:
        return a[0] - b[0], a[1]
    return a[0] - b[0], -b[1] if a[1] is None else a[1] - b[1]


def _multiply(a: _Number, b: _Number) -> Parts:
    """A real factor scales both parts, as in C99: no 0 * inf makes a nan of a finite part."""
    if a[1] is None:
        a, b = b, a
    if b[1] is None:
        return a[0] * b[0], a[1] * b[0]
    return formulas.multiply(_wide(a), _wide(b))


def _divide(a: _Number, b: _Number) -> Parts:
    if b[1] is None:
        return a[0] / b[0], a[1] / b[0]
    return formulas.divide(_wide(a), b)


def _power(a: _Number, b: _Number) -> Parts:
    exponent = b[0]
    whole = b[1] is None and isinstance(exponent, int) and not isinstance(exponent, bool)
    if not whole or abs(exponent) > _MOST_FACTORS:
        return formulas.power(_wide(a), _wide(b))
    if exponent == 0:
        return 1.0 + 0.0 * a[0], 0.0 * a[0]
    positive = _repeated(_wide(a), abs(exponent))
    return positive if exponent > 0 else formulas.inverse(positive)


def _repeated(a: Parts, exponent: int) -> Parts:
    """A positive power by squaring."""
    if exponent == 1:
        return a
    half = _repeated(a, exponent // 2)
    square = formulas.multiply(half, half)
    return formulas.multiply(square, a) if exponent % 2 else square


def _equal(a: _Number, b: _Number) -> Real:
    return formulas.equal(_wide(a), _wide(b))


def _not_equal(a: _Number, b: _Number) -> Real:
    return logical(op.NOT, _equal(a, b))


def _of_parts(function: Callable[[Parts], object]) -> Callable[[_Number], object]:
    return lambda a: function(_wide(a))


def _is_nan(a: Parts) -> Real:
    return logical(op.OR, test(op.IS_NAN, a[0]), test(op.IS_NAN, a[1]))


def _is_finite(a: Parts) -> Real:
    return logical(op.AND, test(op.IS_FINITE, a[0]), test(op.IS_FINITE, a[1]))


def _stopped(a: Parts) -> Parts:
    return unary(op.STOP_GRADIENT, a[0]), unary(op.STOP_GRADIENT, a[1])


_RULES: dict[Primitive, Callable[..., object]] = {
    op.ADD: _add, op.SUB: _subtract, op.MUL: _multiply, op.DIV: _divide, op.POW: _power,
    op.EQ: _equal, op.NE: _not_equal,
    **{primitive: _of_parts(function) for primitive, function in {
        op.NEG: lambda a: (-a[0], -a[1]), op.ABS: formulas.absolute, op.EXP: formulas.exp,
        op.LOG: formulas.log, op.SQRT: formulas.sqrt, op.SIN: formulas.sin, op.COS: formulas.cos,
        op.TAN: formulas.tan, op.SINH: formulas.sinh, op.COSH: formulas.cosh,
        op.TANH: formulas.tanh, op.IS_NAN: _is_nan, op.IS_FINITE: _is_finite,
        op.STOP_GRADIENT: _stopped,
    }.items()},
}  # fmt: skip
_ORDERS = (op.LT, op.LE, op.MIN, op.MAX)


class ComplexArithmetic:
    """What operators and functions do where a complex number is among their operands."""

    def apply(self, primitive: Primitive, values: Sequence[Any]) -> object:
        """`primitive` of numbers; KernelTypeError where complex numbers have no such operation."""
        rule = _RULES.get(primitive)
        if rule is None:
            _refuse(primitive)
        part = next(value.real for value in values if is_complex(value))
        found = rule(*(_number(_as_part(value, part)) for value in values))
        return pair(*found) if isinstance(found, tuple) else found

    def select(self, condition: object, then: object, orelse: object) -> object:
        """`then` if `condition` else `orelse`; both are computed."""
        a, b = _wide(_number(then)), _wide(_number(orelse))
        return pair(select(condition, a[0], b[0]), select(condition, a[1], b[1]))

    def truth(self, value: Any) -> Atom:
        """Whether a number is not zero."""
        return to_bool(_not_equal(_number(value), (0.0, None)))


def _refuse(primitive: Primitive) -> NoReturn:
    if primitive in _ORDERS:
        raise KernelTypeError(
            "complex numbers are compared, and have no order.",
            at=here(),
            fix="Compare `abs(z)` or `z.real`.",
        )
    raise KernelTypeError(
        f"kernels have no `{primitive.name}` of complex numbers.",
        at=here(),
        fix="Write it with `z.real`, `z.imag` and the functions that complex numbers have.",
    )
