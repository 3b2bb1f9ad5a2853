"""Symbols that stand for numbers, and arithmetic on them.

Operators on a tracer emit primitives.  The other operand may be any number; `lift` turns it into
an atom with a type.  Python's conversions (`bool`, `int`, `float`, `index`, iteration) are refused
here, since they are met only where the source was not rewritten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from peffects.errors import ControlFlowError, DivisionError, KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import lit_like
from peffects.ir.primitives import CAST, Primitive
from peffects.ir.syntax import BOOL, F64, I64, Atom, Binding, Lit, Scalar, Var
from peffects.staging.promotion import join, number_type, true_division_type
from peffects.staging.trace import Scope, here, staging

__all__ = [
    "Operand", "ScalarTracer", "Tracer", "binary", "cast", "compare", "convert", "is_symbolic",
    "lift", "logical", "make", "meet", "operand", "power", "renamed", "select", "test", "to_bool",
    "unary", "unary_float",
    "weak_int",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operand:
    """A number as an atom."""

    atom: Atom
    type: Scalar
    weak: bool


class Tracer:
    """Base of all symbols."""

    _pe_symbolic: ClassVar[bool] = True
    __array_priority__: ClassVar[float] = 1000.0
    scope: Scope

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

    def _refuse(self, python: str) -> NoReturn:
        raise ControlFlowError(
            f"Python asks for {python} of {self.what()}, which is known only when the kernel runs.",
            at=here(),
            fix="In source that peffects sees, use `if`, `for ... in range`, `int(...)`; elsewhere "
            "`pe.where` and tables.",
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
        self._refuse("the elements")

    def __contains__(self, item: object) -> bool:
        self._refuse("the elements")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse("a numpy array")

    def __reduce__(self) -> NoReturn:
        self._refuse("a pickle")

    def __hash__(self) -> int:
        return id(self)


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

    def __pow__(self, other: object) -> ScalarTracer:
        return power(self, other)

    def __rpow__(self, other: object) -> ScalarTracer:
        return power(other, self)

    def __neg__(self) -> ScalarTracer:
        return unary(op.NEG, self)

    def __pos__(self) -> ScalarTracer:
        return make(lift(self))

    def __abs__(self) -> ScalarTracer:
        return unary(op.ABS, self)

    def __invert__(self) -> ScalarTracer:
        x = lift(self)
        return logical(op.NOT, self) if x.type == BOOL else binary(op.BIT_XOR, self, -1)

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


class ScalarTracer(Arithmetic):
    """A number that is known when the program runs."""

    def __init__(self, atom: Atom, type_: Scalar, weak: bool, scope: Scope) -> None:
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

    def __repr__(self) -> str:
        return f"<symbol {self.atom!r}: {self.type}>"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the number."""
        return np.dtype(self.type.dtype)


def is_symbolic(value: object) -> bool:
    """Whether `value` stands for something that is known only when the program runs."""
    return getattr(type(value), "_pe_symbolic", False) is True


def renamed(var: Var, name: str) -> Var:
    """`var` under another name if nothing uses it yet: if it was the last to be bound."""
    trace = staging()
    bindings = trace.builder.bindings
    if name.startswith("_pe") or not bindings or bindings[-1].vars != (var,) or var in trace.named:
        return var
    new = Var(name, var.type)
    trace.named.add(new)
    bindings[-1] = Binding((new,), bindings[-1].expr, bindings[-1].src)
    return new


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
        raise ValueRangeError(f"the integer {value} does not fit in 64 bits.", at=here())
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


def cast(x: Operand, target: Scalar) -> Atom:
    """The atom `x` as `target`."""
    if x.type == target:
        return x.atom
    if isinstance(x.atom, Lit) and (target.is_float or x.type == BOOL):
        return lit_like(x.atom.value, target)
    if isinstance(x.atom, Lit) and x.weak and target.is_integer and x.type.is_integer:
        return _narrow(int(x.atom.value), target)
    return staging().prim(CAST[target], x.atom)


def _narrow(value: int, target: Scalar) -> Lit:
    info = np.iinfo(target.dtype)
    if not info.min <= value <= info.max:
        raise ValueRangeError(f"the integer {value} is no {target.dtype}.", at=here())
    return lit_like(value, target)


def _number(x: Operand) -> Operand:
    """Bools as i64, as Python has it."""
    return Operand(cast(x, I64), I64, True) if x.type == BOOL else x


def meet(
    left: object, right: object, at_least: Callable[[Scalar], Scalar] | None = None
) -> tuple[Atom, Atom, Scalar, bool]:
    """Two numbers in the type in which they meet."""
    x, y = lift(left), lift(right)
    result, weak = join(x.type, x.weak, y.type, y.weak)
    if at_least is not None:
        result = at_least(result)
    return cast(x, result), cast(y, result), result, weak


def _emit(primitive: Primitive, atoms: tuple[Atom, ...], weak: bool) -> ScalarTracer:
    var = staging().prim(primitive, *atoms)
    assert isinstance(var.type, Scalar)
    return make(Operand(var, var.type, weak))


def binary(primitive: Primitive, left: object, right: object) -> ScalarTracer:
    """Two numbers, promoted, through `primitive`; integer division tests its divisor."""
    x, y = lift(left), lift(right)
    if primitive not in (op.MIN, op.MAX):
        x, y = _number(x), _number(y)
    result, weak = join(x.type, x.weak, y.type, y.weak)
    if primitive is op.DIV:
        result = true_division_type(result)
    a, b = cast(x, result), cast(y, result)
    if primitive in (op.SHIFT_LEFT, op.SHIFT_RIGHT) and not result.is_integer:
        raise KernelTypeError(f"bits of a {result} are shifted.", at=here(), fix="Shift integers.")
    if primitive in (op.FLOORDIV, op.MOD) and result.is_integer:
        _check_divisor(b, result)
    return _emit(primitive, (a, b), weak)


def _check_divisor(divisor: Atom, t: Scalar) -> None:
    if isinstance(divisor, Lit):
        if divisor.value == 0:
            raise DivisionError("division by the literal 0.", at=here())
        return
    trace = staging()
    nonzero = trace.prim(op.NE, divisor, lit_like(0, t))
    trace.check(
        nonzero,
        DivisionError,
        "integer division by zero.",
        fix="Test the divisor: `x // d if d != 0 else 0`.",
    )


def unary(primitive: Primitive, value: object) -> ScalarTracer:
    """A number through `primitive`."""
    x = _number(lift(value))
    return _emit(primitive, (x.atom,), x.weak)


def unary_float(primitive: Primitive, *values: object) -> ScalarTracer:
    """Numbers as floats through `primitive`."""
    xs = [lift(value) for value in values]
    result, weak = xs[0].type, xs[0].weak
    for x in xs[1:]:
        result, weak = join(result, weak, x.type, x.weak)
    result = true_division_type(result)
    return _emit(primitive, tuple(cast(x, result) for x in xs), weak)


def compare(primitive: Primitive, left: object, right: object) -> ScalarTracer:
    """A comparison; equality with something that is no number is refused."""
    a, b, _, _ = meet(left, right)
    return _emit(primitive, (a, b), False)


def test(primitive: Primitive, value: object) -> ScalarTracer:
    """A test of a number as a float, such as whether it is finite."""
    x = lift(value)
    return _emit(primitive, (cast(x, true_division_type(x.type)),), False)


def weak_int(atom: Atom) -> ScalarTracer:
    """An i64 atom as a Python int."""
    return make(Operand(atom, I64, True))


def to_bool(value: object) -> Atom:
    """The truth value of a number, as Python has it: whether it is not zero."""
    x = lift(value, "a condition")
    if x.type == BOOL:
        return x.atom
    return staging().prim(op.NE, x.atom, lit_like(0, x.type))


def logical(primitive: Primitive, *values: object) -> ScalarTracer:
    """Truth values through `primitive`."""
    return _emit(primitive, tuple(to_bool(value) for value in values), False)


def bitwise(
    on_bools: Primitive, on_integers: Primitive, left: object, right: object
) -> ScalarTracer:
    """`&`, `|` and `^`: of bools their logic, of integers their bits."""
    a, b, t, weak = meet(left, right)
    if t.is_float:
        raise KernelTypeError(
            "bits of a float are combined.", at=here(), fix="Use `and` and `or` on conditions."
        )
    return _emit(on_bools if t == BOOL else on_integers, (a, b), weak)


def select(condition: object, then: object, orelse: object) -> ScalarTracer:
    """`then` if `condition` else `orelse`; both are computed."""
    pred = to_bool(condition)
    a, b, _, weak = meet(then, orelse)
    return _emit(op.SELECT, (pred, a, b), weak)


_MOST_FACTORS = 16


def power(base: object, exponent: object) -> ScalarTracer:
    """`base ** exponent`; a small literal integer exponent becomes multiplications."""
    if (
        isinstance(exponent, int)
        and not isinstance(exponent, bool)
        and abs(exponent) <= _MOST_FACTORS
    ):
        return _integer_power(base, exponent)
    x, y = _number(lift(base)), _number(lift(exponent))
    result, weak = join(x.type, x.weak, y.type, y.weak)
    a, b = cast(x, result), cast(y, result)
    if result.is_integer:
        trace = staging()
        ok = trace.prim(op.LE, lit_like(0, result), b)
        text = "an integer is raised to the negative power {0}."
        trace.check(ok, ValueRangeError, text, (b,), "Make the base a float.")
    return _emit(op.POW, (a, b), weak)


def _integer_power(base: object, exponent: int) -> ScalarTracer:
    x = _number(lift(base))
    if exponent < 0:
        positive = _integer_power(
            make(Operand(cast(x, true_division_type(x.type)), true_division_type(x.type), x.weak)),
            -exponent,
        )
        return binary(op.DIV, 1.0, positive)
    if exponent == 0:
        return make(Operand(lit_like(1, x.type), x.type, x.weak))
    square, result = make(x), None
    while True:
        if exponent % 2:
            result = square if result is None else binary(op.MUL, result, square)
        exponent //= 2
        if not exponent:
            return result if result is not None else square
        square = binary(op.MUL, square, square)


def convert(value: object, target: Scalar, weak: bool = False) -> ScalarTracer:
    """A number as `target`; a float that becomes an integer is truncated, and must be in range."""
    x = lift(value)
    if x.type.is_float and target.is_integer:
        _check_range(x, target)
    return make(Operand(cast(x, target), target, weak))


def _check_range(x: Operand, target: Scalar) -> None:
    info = np.iinfo(target.dtype)
    trace = staging()
    # 2**63 and so on are floats of both types; the largest integers themselves may not be.
    low, high = float(info.min), float(int(info.max) + 1)
    below = trace.prim(op.LT, x.atom, lit_like(high, x.type))
    if target.name[0] == "u" or info.bits < 32 or (x.type == F64 and info.bits == 32):
        above = trace.prim(op.LT, lit_like(low - 1.0, x.type), x.atom)
    else:
        above = trace.prim(op.LE, lit_like(low, x.type), x.atom)
    ok = trace.prim(op.AND, above, below)
    text = "the float {0} cannot become an integer (" + target.dtype + ")."
    trace.check(
        ok,
        ValueRangeError,
        text,
        (x.atom,),
        "Clamp it before the conversion: `int(min(max(x, lo), hi))`.",
    )
