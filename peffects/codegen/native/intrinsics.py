"""What generated source imports: memory access by address, the frame, reductions.

Kernels hold addresses as plain int64.  `load` and `store` make accessors for one element type and
one *alias scope*: every buffer of a kernel has a scope number of its own, each access says that it
does not alias the other scopes, and LLVM then vectorizes without run-time alias checks.  Indices
are unsigned, since numba's (and C's) treatment of negative ones stops vectorization.

User arithmetic keeps IEEE order and rounding.  Only `reduce_*` and `contract_mul`, which serve
peffects' own reductions, allow LLVM to reorder: their order is unspecified to begin with.

Imports numba: only `loader.py` and generated source import this module.  The layout of the reserved
slots is told in `program/loop_programs.py`.  The text of this module is part of every cache key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any, TypeAlias, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from peffects.codegen.native.arithmetic import _by_constant
from peffects.codegen.program.loop_programs import (
    CANCEL_SLOT,
    CHUNKS_SLOT,
    FAILED_SLOT,
    STATUS_FIELDS,
    STATUS_SLOT,
    TICK_STRIDE,
    TICKS_SLOT,
    TRIP_SLOT,
)

__all__ = [
    "DTYPES",
    "MOST_SCOPES",
    "NO_SCOPE",
    "bits_of_f64",
    "cancelled",
    "chunk_start",
    "chunk_stop",
    "contract_mul",
    "contract_scale",
    "contract_scale_by",
    "fail",
    "frame_get",
    "frame_set",
    "load",
    "note",
    "reduce_add",
    "reduce_max",
    "reduce_min",
    "reduce_mul",
    "store",
    "tick",
]

DTYPES = (
    "float64",
    "float32",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
)
NO_SCOPE = -1
"""May alias everything: the frame, and buffers that share memory."""
MOST_SCOPES = 64
"""Scope numbers are below this one; each access names all the others, so the number is fixed."""

_I64 = ir.IntType(64)
_I8 = ir.IntType(8)

_Emit: TypeAlias = "Callable[..., ir.Value | None]"
"""What builds the instructions: `(builder, *arguments) -> value`, or None where there is none."""


_Choice: TypeAlias = "Callable[..., tuple[types.Signature, _Emit] | None]"
"""What finds, for the types of the arguments, a signature and what builds the instructions."""


def _made(name: str, doc: str | None, arity: int, choose: _Choice) -> Callable[..., Any]:
    """An intrinsic of numba; it reads the number of parameters from the signature."""

    def typed(typingctx: object, *args: types.Type) -> Any:
        choice = choose(*args)
        if choice is None:
            return None
        signature, emit = choice

        def codegen(context: Any, builder: ir.IRBuilder, _: object, values: Any) -> Any:
            value = emit(builder, *values)
            return context.get_dummy_value() if value is None else value

        return signature, codegen

    typed.__name__ = typed.__qualname__ = name
    typed.__doc__ = doc
    names = ["typingctx", *(f"argument_{k}" for k in range(arity))]
    typed.__signature__ = Signature(  # type: ignore[attr-defined]  # functions may have one
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return intrinsic(typed)


def _intrinsic(result: types.Type, *args: types.Type) -> Callable[[_Emit], Callable[..., Any]]:
    """Decorate what builds the instructions of an intrinsic of these types; given ones convert."""
    signature = result(*args)

    def decorate(emit: _Emit) -> Callable[..., Any]:
        def choose(*given: types.Type) -> tuple[types.Signature, _Emit] | None:
            return signature, emit

        return _made(emit.__name__, emit.__doc__, len(args), choose)

    return decorate


# --- memory -----------------------------------------------------------------------------------


def _numba_type(dtype: str) -> types.Type:
    return types.boolean if dtype == "bool" else cast(types.Type, getattr(types, dtype))


def _memory_type(dtype: str) -> ir.Type:
    """The LLVM type in memory; a bool is one byte there and one bit in a register."""
    if dtype == "float64":
        return ir.DoubleType()
    if dtype == "float32":
        return ir.FloatType()
    return _I8 if dtype == "bool" else ir.IntType(int(dtype.lstrip("uint")))


def _mark_scope(module: ir.Module, access: ir.Instruction, scope: int) -> None:
    """Say that `access` belongs to `scope` and aliases no other scope."""
    if scope == NO_SCOPE:
        return
    known = module.__dict__.setdefault("_peffects_scopes", _Nodes())
    if scope not in known:
        known[scope] = _scope_nodes(module, scope)
    mine, others = known[scope]
    access.set_metadata("alias.scope", mine)
    access.set_metadata("noalias", others)


class _Nodes(dict[int, tuple[ir.MDValue, ir.MDValue]]):
    """A module's nodes by scope: to look one up in the module takes a millisecond.

    The module has them as an attribute: they hold it, so no table beside it would let go of it.
    """


def _scope_nodes(module: ir.Module, scope: int) -> tuple[ir.MDValue, ir.MDValue]:
    """The list of one scope, and the list of all others."""
    text = ir.MetaDataString
    domain = module.add_metadata([text(module, "peffects")])
    scopes = [
        module.add_metadata([text(module, f"peffects.{k}"), domain]) for k in range(MOST_SCOPES)
    ]
    others = [node for k, node in enumerate(scopes) if k != scope]
    return module.add_metadata([scopes[scope]]), module.add_metadata(others)


def _element(builder: ir.IRBuilder, dtype: str, address: ir.Value, index: ir.Value) -> ir.Value:
    """The pointer to element `index` of the array at `address`."""
    base = builder.inttoptr(address, _memory_type(dtype).as_pointer())
    return builder.gep(base, [index])


def _read(builder: ir.IRBuilder, dtype: str, place: ir.Value, scope: int) -> ir.Value:
    value = builder.load(place)
    _mark_scope(builder.module, value, scope)
    return builder.icmp_unsigned("!=", value, _I8(0)) if dtype == "bool" else value


def _check(dtype: str, scope: int) -> None:
    if dtype not in DTYPES or not NO_SCOPE <= scope < MOST_SCOPES:
        raise ValueError(f"no memory access for {dtype!r} in alias scope {scope}")


@cache
def load(dtype: str, scope: int = NO_SCOPE) -> Callable[[int, int], Any]:
    """`f(address, index) -> value`: element `index` of the array of `dtype` at `address`."""
    _check(dtype, scope)

    @_intrinsic(_numba_type(dtype), types.int64, types.uint64)
    def load_element(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
        return _read(builder, dtype, _element(builder, dtype, address, index), scope)

    return load_element


@cache
def store(dtype: str, scope: int = NO_SCOPE) -> Callable[[int, int, Any], None]:
    """`f(address, index, value)`: set element `index` of the array of `dtype` at `address`."""
    _check(dtype, scope)

    @_intrinsic(types.void, types.int64, types.uint64, _numba_type(dtype))
    def store_element(
        builder: ir.IRBuilder, address: ir.Value, index: ir.Value, value: ir.Value
    ) -> None:
        if dtype == "bool":
            value = builder.zext(value, _I8)
        done = builder.store(value, _element(builder, dtype, address, index))
        _mark_scope(builder.module, done, scope)

    return store_element


# --- the frame --------------------------------------------------------------------------------


@cache
def frame_get(dtype: str) -> Callable[[int, int], Any]:
    """`f(frame, slot) -> value`: the low bytes of the slot, bit for bit."""
    _check(dtype, NO_SCOPE)

    @_intrinsic(_numba_type(dtype), types.int64, types.uint64)
    def get_slot(builder: ir.IRBuilder, frame: ir.Value, slot: ir.Value) -> ir.Value:
        place = _element(builder, "int64", frame, slot)
        low = builder.bitcast(place, _memory_type(dtype).as_pointer())
        return _read(builder, dtype, low, NO_SCOPE)

    return get_slot


def _widen(builder: ir.IRBuilder, dtype: str, value: ir.Value) -> ir.Value:
    """The 64 bits that a slot holds for `value`: sign-extended where signed, else zero-extended."""
    if dtype == "float64":
        return builder.bitcast(value, _I64)
    if dtype == "float32":
        return builder.zext(builder.bitcast(value, ir.IntType(32)), _I64)
    if value.type == _I64:
        return value
    return builder.sext(value, _I64) if dtype.startswith("int") else builder.zext(value, _I64)


@cache
def frame_set(dtype: str) -> Callable[[int, int, Any], None]:
    """`f(frame, slot, value)`: set the whole slot, so that an integer in it can be a size."""
    _check(dtype, NO_SCOPE)

    @_intrinsic(types.void, types.int64, types.uint64, _numba_type(dtype))
    def set_slot(builder: ir.IRBuilder, frame: ir.Value, slot: ir.Value, value: ir.Value) -> None:
        builder.store(_widen(builder, dtype, value), _element(builder, "int64", frame, slot))

    return set_slot


def _slot(builder: ir.IRBuilder, frame: ir.Value, slot: int) -> ir.Value:
    return builder.load(_element(builder, "int64", frame, _I64(slot)))


def _chunk_bound(builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value) -> ir.Value:
    """Give `trip*chunk//chunks` without overflow.

    trip = q*chunks + r, so it is q*chunk + r*chunk//chunks.
    """
    chunks, trip = _slot(builder, frame, CHUNKS_SLOT), _slot(builder, frame, TRIP_SLOT)
    whole, rest = builder.udiv(trip, chunks), builder.urem(trip, chunks)
    part = builder.udiv(builder.mul(rest, chunk), chunks)
    return builder.add(builder.mul(whole, chunk), part)


@_intrinsic(types.uint64, types.int64, types.int64)
def chunk_start(builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value) -> ir.Value:
    """`chunk_start(frame, chunk) -> uint64`: the first iteration of the chunk."""
    return _chunk_bound(builder, frame, chunk)


@_intrinsic(types.uint64, types.int64, types.int64)
def chunk_stop(builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value) -> ir.Value:
    """`chunk_stop(frame, chunk) -> uint64`: the iteration after the last one of the chunk."""
    return _chunk_bound(builder, frame, builder.add(chunk, _I64(1)))


@_intrinsic(types.boolean, types.int64)
def cancelled(builder: ir.IRBuilder, frame: ir.Value) -> ir.Value:
    """`cancelled(frame) -> bool`: whether the kernel shall return; read anew at each call."""
    flag = builder.inttoptr(_slot(builder, frame, CANCEL_SLOT), _I64.as_pointer())
    value = builder.load_atomic(flag, "monotonic", 8)
    return builder.icmp_unsigned("!=", value, _I64(0))


@_intrinsic(types.void, types.int64, types.int64, types.int64)
def tick(builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value, count: ir.Value) -> None:
    """`tick(frame, chunk, count)`: the chunk has finished `count` more iterations."""
    index = builder.mul(chunk, _I64(TICK_STRIDE))
    place = _element(builder, "int64", _slot(builder, frame, TICKS_SLOT), index)
    total = builder.add(builder.load_atomic(place, "monotonic", 8), count)
    builder.store_atomic(total, place, "monotonic", 8)


@_intrinsic(types.void, *[types.int64] * 6)
def fail(
    builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value, number: ir.Value, *operands: ir.Value
) -> None:
    """`fail(frame, chunk, number, index, value, size)`: write the status record; then return."""
    row = builder.mul(chunk, _I64(STATUS_FIELDS))
    record = _element(builder, "int64", _slot(builder, frame, STATUS_SLOT), row)
    for field, word in enumerate([builder.add(number, _I64(1)), *operands]):
        builder.store(word, builder.gep(record, [_I64(field)]))
    failed = _element(builder, "int64", frame, _I64(FAILED_SLOT))
    builder.store_atomic(_I64(1), failed, "monotonic", 8)


@_intrinsic(types.void, *[types.int64] * 4)
def note(
    builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value, number: ir.Value, word: ir.Value
) -> None:
    """`note(frame, chunk, number, word)`: write operand `number`, from 2 on, of what fails next."""
    row = builder.mul(chunk, _I64(STATUS_FIELDS))
    record = _element(builder, "int64", _slot(builder, frame, STATUS_SLOT), row)
    builder.store(word, builder.gep(record, [builder.add(number, _I64(2))]))


@_intrinsic(types.int64, types.float64)
def bits_of_f64(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """`bits_of_f64(x) -> int64`: how `fail` takes a float operand."""
    return builder.bitcast(value, _I64)


# --- reductions -------------------------------------------------------------------------------

_REORDER = ("reassoc", "contract")
_SUFFIXES = {ir.DoubleType: "f64", ir.FloatType: "f32"}


def _combiner(floats: _Emit, signed: _Emit, unsigned: _Emit) -> Callable[..., Any]:
    """Decorate the empty definition of an intrinsic of two numbers of one type."""

    def choose(a: types.Type, b: types.Type) -> tuple[types.Signature, _Emit] | None:
        if a != b:
            return None
        if isinstance(a, types.Float):
            return a(a, b), floats
        if isinstance(a, types.Integer):
            return a(a, b), signed if a.signed else unsigned
        return None

    def decorate(definition: Callable[..., Any]) -> Callable[..., Any]:
        return _made(definition.__name__, definition.__doc__, 2, choose)

    return decorate


def _llvm(name: str) -> _Emit:
    """What calls LLVM's intrinsic `name` of two values of one type."""

    def emit(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        suffix = _SUFFIXES.get(type(a.type), str(a.type))
        kind = ir.FunctionType(a.type, [a.type, a.type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{suffix}")
        return builder.call(function, [a, b])

    return emit


def _fadd(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fadd(a, b, flags=_REORDER)


def _fmul(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fmul(a, b, flags=_REORDER)


def _contracted(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fmul(a, b, flags=("contract",))


def _add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.add(a, b)


def _mul(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.mul(a, b)


@_combiner(_fadd, _add, _add)
def reduce_add(a: Any, b: Any) -> Any:
    """`a + b` in a reduction whose order is unspecified; may be fused with `contract_mul`."""


@_combiner(_fmul, _mul, _mul)
def reduce_mul(a: Any, b: Any) -> Any:
    """`a * b` in a reduction whose order is unspecified."""


@_combiner(_llvm("minimum"), _llvm("smin"), _llvm("umin"))
def reduce_min(a: Any, b: Any) -> Any:
    """Give the smaller one; NaN if either is, as numpy's `minimum`."""


@_combiner(_llvm("maximum"), _llvm("smax"), _llvm("umax"))
def reduce_max(a: Any, b: Any) -> Any:
    """Give the larger one; NaN if either is, as numpy's `maximum`."""


def _contracted_scale(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    zero = a.type(0.0)
    kept = builder.select(builder.fcmp_ordered("==", b, zero), zero, a)
    other = builder.select(builder.fcmp_ordered("==", a, zero), zero, b)
    return builder.fmul(kept, other, flags=("contract",))


def _contracted_scale_by(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return _by_constant(builder, a, b, _contracted_scale, ("contract",))


@_combiner(_contracted_scale_by, _mul, _mul)
def contract_scale_by(a: Any, b: Any) -> Any:
    """`contract_scale`, where the innermost loop does not change b."""


@_combiner(_contracted_scale, _mul, _mul)
def contract_scale(a: Any, b: Any) -> Any:
    """`a * b`, 0 if one is 0, that may be fused with the `reduce_add` that takes it."""


@_combiner(_contracted, _mul, _mul)
def contract_mul(a: Any, b: Any) -> Any:
    """`a * b` that may be fused with the `reduce_add` that takes it."""
