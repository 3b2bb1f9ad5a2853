"""Symbols that stand for numbers, and arithmetic on them.

Operators on a tracer emit primitives.  The other operand may be any number; `lift` turns it into
an atom with a type.  Python's conversions (`bool`, `int`, `float`, `index`, iteration) are refused
here, since they are met only where the source was not rewritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from peffects.errors import ControlFlowError, KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import lit_like
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import BOOL, I64, Atom, Binding, Scalar, Var
from peffects.machine.checking.locations import asked_for_user
from peffects.parallel.index_sets.packed import Packed
from peffects.source import SrcInfo, lines_of
from peffects.staging.scalars import arithmetic
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.tracing.promotion import number_type
from peffects.staging.tracing.trace import OpenBlock, here, staging

P = ParamSpec("P")
R = TypeVar("R")
Function: TypeAlias = Callable[..., object]

__all__ = [
    "Arithmetic", "Operand", "ScalarTracer", "Tracer", "binary", "bitwise", "compare", "conjugate",
    "convert",
    "invert", "is_complex", "is_symbolic", "is_whole", "lift", "logical", "make", "operand",
    "pointwise", "positive", "power", "python_extreme", "refuse_missing",
    "renamed", "select", "test", "to_bool", "unary", "unary_float", "weak_int",
]  # fmt: skip


def _how_to_decide(at: SrcInfo) -> str:
    """What to write where Python would need a number."""
    if at.line and not lines_of(at.file):
        return (
            f"The source of {at.file} is not to be had, so its `if` and loops cannot be staged: "
            "put the code into a file or a notebook, or write `pe.where` and tables."
        )
    return (
        "In source that peffects sees, use `if`, `for ... in range`, `int(...)`; elsewhere "
        "`pe.where` and tables."
    )


class Tracer:
    """Base of all symbols."""

    _pe_symbolic: ClassVar[bool] = True
    __array_priority__: ClassVar[float] = 1000.0
    is_whole: bool = False
    is_missing: ClassVar[bool] = False
    scope: OpenBlock

    def operand(self) -> Operand:
        """This symbol as a number; KernelTypeError if it stands for none."""
        raise KernelTypeError(
            f"{self.what()} is used as a number.",
            at=here(),
            fix="Index it: kernels compute on elements.",
        )

    def what(self) -> str:
        """What it is, for messages."""
        return "a symbol"

    def _refuse(self, python: str, fix: str | None = None) -> NoReturn:
        raise ControlFlowError(
            f"Python asks for {python} of {self.what()}, which is known only when the kernel runs.",
            at=here(),
            fix=_how_to_decide(here()) if fix is None or not self.is_whole else fix,
        )

    def __bool__(self) -> bool:
        self._refuse("the truth value")

    def __index__(self) -> int:
        self._refuse("the value as an integer")

    def __int__(self) -> int:
        self._refuse("the value as an integer")

    def __float__(self) -> float:
        self._refuse("the value as a float")

    def __complex__(self) -> complex:
        self._refuse("the value as a complex number")

    def __iter__(self) -> NoReturn:
        self._refuse(
            "the elements",
            "Make a table, `pe.table(lambda i: f(x[i]))`; loop with `for k in range(len(x))`; or "
            "take elements by number: `a, b = x[0], x[1]`.",
        )

    def __contains__(self, item: object) -> bool:
        raise ControlFlowError(
            f"`in` asks whether something is among the elements of {self.what()}, which are known "
            "only when the kernel runs.",
            at=here(),
            fix="Say it with a reduction: `pe.any(lambda i: x[i] == value)`.",
        )

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse(
            "a numpy array",
            "Call the function for each element, `pe.table(lambda i: f(x[i]))`; join tables with "
            "`np.concatenate`, `np.stack` and their kin.",
        )

    def __repr__(self) -> str:
        if asked_for_user():
            self._refuse("the text")
        return self._shown()

    def _shown(self) -> str:
        """What our own messages show of it, and a debugger."""
        return f"<{self.what()}>"

    def __str__(self) -> str:
        self._refuse("the text")

    def __format__(self, spec: str) -> str:
        self._refuse("the text")

    def __reduce__(self) -> NoReturn:
        self._refuse("a pickle")

    def __hash__(self) -> int:
        self._refuse("the hash (for a set or a dict)")

    def __enter__(self) -> NoReturn:
        raise KernelTypeError(
            f"`with` is given {self.what()}, which is no context manager.",
            at=here(),
            fix="Write the statements without `with`: values of kernels need no closing.",
        )

    def __exit__(self, *error: object) -> None:
        """Python looks for it before it enters."""


def refuse_missing(value: object) -> None:
    """Raise MergeError, which says why, if `value` stands in a local that has no value."""
    if isinstance(value, Tracer) and value.is_missing:
        value.operand()


def _no_modulus(modulus: object) -> None:
    if modulus is not None:
        raise KernelTypeError(
            "kernels have no `pow` with three arguments.",
            at=here(),
            fix="Write the loop: `for _ in range(k): r = r * x % m`.",
        )


class Arithmetic(Tracer):
    """The operators of numbers."""

    def __add__(self, other: object) -> ScalarTracer:
        return binary(op.ADD, self, other)

    def __radd__(self, other: object) -> ScalarTracer:
        return binary(op.ADD, other, self)

    def __sub__(self, other: object) -> ScalarTracer:
        return binary(op.SUB, self, other)

    def __rsub__(self, other: object) -> ScalarTracer:
        return binary(op.SUB, other, self)

    def __mul__(self, other: object) -> ScalarTracer:
        return binary(op.MUL, self, other)

    def __rmul__(self, other: object) -> ScalarTracer:
        return binary(op.MUL, other, self)

    def __truediv__(self, other: object) -> ScalarTracer:
        return binary(op.DIV, self, other)

    def __rtruediv__(self, other: object) -> ScalarTracer:
        return binary(op.DIV, other, self)

    def __floordiv__(self, other: object) -> ScalarTracer:
        return binary(op.FLOORDIV, self, other)

    def __rfloordiv__(self, other: object) -> ScalarTracer:
        return binary(op.FLOORDIV, other, self)

    def __mod__(self, other: object) -> ScalarTracer:
        return binary(op.MOD, self, other)

    def __rmod__(self, other: object) -> ScalarTracer:
        return binary(op.MOD, other, self)

    def __divmod__(self, other: object) -> tuple[ScalarTracer, ScalarTracer]:
        return binary(op.FLOORDIV, self, other), binary(op.MOD, self, other)

    def __rdivmod__(self, other: object) -> tuple[ScalarTracer, ScalarTracer]:
        return binary(op.FLOORDIV, other, self), binary(op.MOD, other, self)

    def __pow__(self, other: object, modulus: object = None) -> ScalarTracer:
        _no_modulus(modulus)
        return power(self, other)

    def __rpow__(self, other: object, modulus: object = None) -> ScalarTracer:
        _no_modulus(modulus)
        return power(other, self)

    def __neg__(self) -> ScalarTracer:
        return unary(op.NEG, self)

    def __pos__(self) -> ScalarTracer:
        return positive(self)

    def __abs__(self) -> ScalarTracer:
        return unary(op.ABS, self)

    def __invert__(self) -> ScalarTracer:
        return invert(self)

    def __and__(self, other: object) -> ScalarTracer:
        return bitwise(op.AND, op.BIT_AND, self, other)

    def __rand__(self, other: object) -> ScalarTracer:
        return bitwise(op.AND, op.BIT_AND, other, self)

    def __or__(self, other: object) -> ScalarTracer:
        return bitwise(op.OR, op.BIT_OR, self, other)

    def __ror__(self, other: object) -> ScalarTracer:
        return bitwise(op.OR, op.BIT_OR, other, self)

    def __xor__(self, other: object) -> ScalarTracer:
        return bitwise(op.NE, op.BIT_XOR, self, other)

    def __rxor__(self, other: object) -> ScalarTracer:
        return bitwise(op.NE, op.BIT_XOR, other, self)

    def __lshift__(self, other: object) -> ScalarTracer:
        return binary(op.SHIFT_LEFT, self, other)

    def __rlshift__(self, other: object) -> ScalarTracer:
        return binary(op.SHIFT_LEFT, other, self)

    def __rshift__(self, other: object) -> ScalarTracer:
        return binary(op.SHIFT_RIGHT, self, other)

    def __rrshift__(self, other: object) -> ScalarTracer:
        return binary(op.SHIFT_RIGHT, other, self)

    def __lt__(self, other: object) -> ScalarTracer:
        return compare(op.LT, self, other)

    def __le__(self, other: object) -> ScalarTracer:
        return compare(op.LE, self, other)

    def __gt__(self, other: object) -> ScalarTracer:
        return compare(op.LT, other, self)

    def __ge__(self, other: object) -> ScalarTracer:
        return compare(op.LE, other, self)

    def __eq__(self, other: object) -> ScalarTracer:  # type: ignore[override]
        return compare(op.EQ, self, other)

    def __ne__(self, other: object) -> ScalarTracer:  # type: ignore[override]
        return compare(op.NE, self, other)

    __hash__ = Tracer.__hash__

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> object:
        """`np.exp(x[i])`, `np.float64(2) * x[i]` and the like."""
        return staging().inputs.arrays.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Function, types: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """`np.sum(row)` and the like."""
        return staging().inputs.arrays.call(function, args, kwargs)


class ScalarTracer(Arithmetic):
    """A number that is known when the program runs."""

    def __init__(self, atom: Atom, type_: Scalar, weak: bool, scope: OpenBlock) -> None:
        self.atom = atom
        self.type = type_
        self.weak = weak
        self.scope = scope

    def operand(self) -> Operand:
        """The number."""
        staging().check_open(self.scope, self.what())
        return Operand(self.atom, self.type, self.weak)

    def rename(self, name: str) -> None:
        """Take the name of the local that holds the number first."""
        if isinstance(self.atom, Var):
            self.atom = renamed(self.atom, name)

    def what(self) -> str:
        """What it is, for messages."""
        name = self.atom.name if isinstance(self.atom, Var) else ""
        return f"the value `{name}`" if name and name != "t" else "a value"

    def _shown(self) -> str:
        return f"<symbol {self.atom!r}: {self.type}>"

    def __getitem__(self, key: object) -> NoReturn:
        raise KernelTypeError(
            f"{self.what()} is one number, a {self.type}, and is indexed.",
            at=here(),
            fix="Give an array there; or use the number as it is.",
        )

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the number."""
        return np.dtype(self.type.dtype)

    @property
    def real(self) -> ScalarTracer:
        """The number itself, which is real."""
        return positive(self)

    @property
    def imag(self) -> ScalarTracer:
        """The imaginary part: 0."""
        kind = I64 if self.type == BOOL else self.type
        return make(Operand(lit_like(0, kind), kind, self.weak))

    def conjugate(self) -> ScalarTracer:
        """The number itself, which is real."""
        return positive(self)


def is_symbolic(value: object) -> bool:
    """Whether `value` stands for something that is known only when the program runs."""
    return getattr(type(value), "_pe_symbolic", False) is True


def renamed(var: Var, name: str) -> Var:
    """`var` under another name if nothing uses it yet: if it was the last to be bound."""
    trace = staging()
    bindings = trace.builder.bindings
    if name.startswith("_pe") or not bindings or bindings[-1].vars != (var,) or var in trace.named:
        return var
    if var in trace.size_homes:  # tables have it as their size already
        return var
    new = Var(name, var.type)
    trace.named.add(new)
    if var in trace.numbers:
        trace.numbers[new] = trace.numbers.pop(var)
    bindings[-1] = Binding((new,), bindings[-1].expr, bindings[-1].src)
    return new


def is_complex(value: object) -> bool:
    """Whether `value` is a complex number: a symbol, or a constant."""
    if isinstance(value, complex | np.complexfloating):
        return True
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "c")
    return getattr(type(value), "_pe_complex", False) is True


def _complex(primitive: Primitive, *values: object) -> Any:
    """`primitive` of numbers among which one is complex.

    The rules are above this module; what they give answers to the operators of `Arithmetic`.
    """
    return staging().inputs.complexes.apply(primitive, values)


def make(x: Operand) -> ScalarTracer:
    """A tracer for `x` in the innermost open block."""
    return ScalarTracer(x.atom, x.type, x.weak, staging().scope)


def operand(value: object) -> Operand | None:
    """`value` as a number, or None if it is none."""
    if isinstance(value, Tracer):
        return value.operand()
    if isinstance(value, np.ndarray):
        captured = staging().inputs.capture(value)
        if not isinstance(captured, Tracer):
            return None
        return captured.operand()
    known = number_type(value)
    if known is None:
        return None
    scalar, weak = known
    if scalar == I64 and not -(2**63) <= int(value) < 2**63:  # type: ignore[call-overload]
        raise ValueRangeError(
            f"the integer {value} does not fit in 64 bits.", at=here(), fix="Use a float."
        )
    number: Any = value.item() if isinstance(value, np.generic) else value
    return Operand(lit_like(number, scalar), scalar, weak)


def lift(value: object, role: str = "an operand") -> Operand:
    """`value` as a number.  Raises KernelTypeError, naming its `role`, if it is none."""
    found = operand(value)
    if found is None:
        raise KernelTypeError(
            f"{role} is {_describe(value)}, not a number.",
            at=here(),
            fix="Kernels compute on elements of arrays, scalar arguments and literal numbers.",
        )
    return found


def _describe(value: object) -> str:
    if value is None:
        return "None"
    return f"the {type(value).__name__} {value!r:.60}"


# --- operations ----------------------------------------------------------------------------------


def is_whole(value: object) -> bool:
    """Whether `value` is a whole table or array: an operation on it is one on its elements."""
    if isinstance(value, Tracer):
        return value.is_whole
    return isinstance(value, np.ndarray) and value.ndim > 0


def pointwise(operation: Callable[P, R]) -> Callable[P, R]:
    """An operation on numbers, which of whole tables makes the table of its values."""

    @functools.wraps(operation)
    def of_numbers_or_tables(*args: P.args, **kwargs: P.kwargs) -> R:
        of_elements = functools.partial(operation, **kwargs)
        for arg in args:
            if isinstance(arg, Packed):
                whole = functools.partial(of_numbers_or_tables, **kwargs)
                return cast(R, arg.mapped(whole, args))
        if not any(map(is_whole, args)):
            return operation(*args, **kwargs)
        return cast(R, staging().inputs.arrays.pointwise(of_elements, args))

    return of_numbers_or_tables


@pointwise
def binary(primitive: Primitive, left: object, right: object) -> ScalarTracer:
    """Two numbers, promoted, through `primitive`; integer division tests its divisor."""
    if is_complex(left) or is_complex(right):
        return cast(ScalarTracer, _complex(primitive, left, right))
    return make(arithmetic.binary(primitive, lift(left), lift(right)))


def python_extreme(primitive: Primitive, first: object, second: object) -> ScalarTracer:
    """Python's `min` or `max`: the second number only if it is less or greater, which no nan is."""
    if is_whole(first) or is_whole(second):
        raise KernelTypeError(
            f"Python's `{primitive.name}` is given a whole table.",
            at=here(),
            fix=f"Write `np.{primitive.name}imum(x, y)`, element by element, or index it.",
        )
    if is_complex(first) or is_complex(second):
        return binary(primitive, first, second)
    return make(arithmetic.python_extreme(primitive, lift(first), lift(second)))


@pointwise
def unary(primitive: Primitive, value: object) -> ScalarTracer:
    """A number through `primitive`."""
    if is_complex(value):
        return cast(ScalarTracer, _complex(primitive, value))
    return make(arithmetic.unary(primitive, lift(value)))


@pointwise
def positive(value: object) -> ScalarTracer:
    """A number as it is; a bool is 0 or 1, as in Python."""
    if is_complex(value):
        return cast(ScalarTracer, value)
    return make(arithmetic.number(lift(value)))


@pointwise
def conjugate(value: Any) -> ScalarTracer:
    """The complex conjugate; of a real number itself."""
    return cast(ScalarTracer, value.conjugate()) if is_complex(value) else positive(value)


@pointwise
def invert(value: object) -> ScalarTracer:
    """`~value`: not, of a bool; the complement of the bits of an integer."""
    return make(arithmetic.inverted(lift(value)))


@pointwise
def unary_float(primitive: Primitive, *values: object) -> ScalarTracer:
    """Numbers as floats through `primitive`."""
    if any(map(is_complex, values)):
        return cast(ScalarTracer, _complex(primitive, *values))
    return make(arithmetic.floats(primitive, *map(lift, values)))


@pointwise
def compare(primitive: Primitive, left: object, right: object) -> ScalarTracer:
    """A comparison; comparing with something that is no number is refused."""
    if is_complex(left) or is_complex(right):
        return cast(ScalarTracer, _complex(primitive, left, right))
    return make(arithmetic.compare(primitive, lift(left), lift(right)))


@pointwise
def test(primitive: Primitive, value: object) -> ScalarTracer:
    """A test of a number as a float, such as whether it is finite."""
    if is_complex(value):
        return cast(ScalarTracer, _complex(primitive, value))
    return make(arithmetic.floats(primitive, lift(value)))


def weak_int(atom: Atom) -> ScalarTracer:
    """An i64 atom as a Python int."""
    return make(Operand(atom, I64, True))


def to_bool(value: object) -> Atom:
    """The truth value of a number, as Python has it: whether it is not zero."""
    if is_complex(value):
        return staging().inputs.complexes.truth(value)
    return arithmetic.truth(lift(value, "a condition"))


@pointwise
def logical(primitive: Primitive, *values: object) -> ScalarTracer:
    """Truth values through `primitive`."""
    return make(arithmetic.emit(primitive, tuple(map(to_bool, values)), False))


def either(left: object, right: object) -> object:
    """`left or right` of two bools, each known or a symbol."""
    if left is True or right is True:
        return True
    if left is False:
        return right
    return left if right is False else logical(op.OR, left, right)


def both(left: object, right: object) -> object:
    """`left and right` of two bools, each known or a symbol."""
    if left is False or right is False:
        return False
    if left is True:
        return right
    return left if right is True else logical(op.AND, left, right)


@pointwise
def bitwise(
    on_bools: Primitive, on_integers: Primitive, left: object, right: object
) -> ScalarTracer:
    """`&`, `|` and `^`: of bools their logic, of integers their bits."""
    return make(arithmetic.bitwise(on_bools, on_integers, lift(left), lift(right)))


@pointwise
def select(condition: object, then: object, orelse: object) -> ScalarTracer:
    """`then` if `condition` else `orelse`; both are computed."""
    if is_complex(then) or is_complex(orelse):
        found = staging().inputs.complexes.select(condition, then, orelse)
        return cast(ScalarTracer, found)
    return make(arithmetic.select(to_bool(condition), lift(then), lift(orelse)))


@pointwise
def power(base: object, exponent: object) -> ScalarTracer:
    """`base ** exponent`; a small literal exponent becomes multiplications and roots."""
    if is_complex(base) or is_complex(exponent):
        return cast(ScalarTracer, _complex(op.POW, base, exponent))
    if type(exponent) is int or type(exponent) is float:
        few = arithmetic.few_factors(lift(base), exponent)
        if few is not None:
            return make(few)
    return make(arithmetic.power(lift(base), lift(exponent)))


@pointwise
def convert(value: object, target: Scalar, weak: bool = False) -> ScalarTracer:
    """A number as `target`; a float that becomes an integer is truncated, and must be in range."""
    return make(arithmetic.convert(lift(value), target, weak))
