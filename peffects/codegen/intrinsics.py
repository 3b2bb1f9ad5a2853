"""What generated source imports: memory access by address, the frame, reductions.

Kernels hold addresses as plain int64.  `load` and `store` make accessors for one element type and one
*alias scope*: every buffer of a kernel has a scope number of its own, each access says that it does
not alias the other scopes, and LLVM then vectorizes without run-time alias checks.  Indices are
unsigned, since numba's (and C's) treatment of negative ones stops vectorization.

User arithmetic keeps IEEE order and rounding.  Only `reduce_*` and `contract_mul`, which serve
peffects' own reductions, allow LLVM to reorder: their order is unspecified to begin with.

Imports numba: only `loader.py` and generated source import this module.  The layout of the reserved
slots is told in `loops.py`.  The text of this module is part of every cache key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from peffects.codegen.loops import (
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
    "fail",
    "frame_get",
    "frame_set",
    "load",
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
_I1 = ir.IntType(1)


# --- memory -----------------------------------------------------------------------------------


def _numba_type(dtype: str) -> types.Type:
    return types.boolean if dtype == "bool" else getattr(types, dtype)


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
    text = ir.MetaDataString
    domain = module.add_metadata([text(module, "peffects")])
    scopes = [
        module.add_metadata([text(module, f"peffects.{k}"), domain]) for k in range(MOST_SCOPES)
    ]
    others = [node for k, node in enumerate(scopes) if k != scope]
    access.set_metadata("alias.scope", module.add_metadata([scopes[scope]]))
    access.set_metadata("noalias", module.add_metadata(others))


def _element(builder: ir.IRBuilder, dtype: str, address: ir.Value, index: ir.Value) -> ir.Value:
    """The pointer to element `index` of the array at `address`."""
    base = builder.inttoptr(address, _memory_type(dtype).as_pointer())
    return builder.gep(base, [index])


def _check(dtype: str, scope: int) -> None:
    if dtype not in DTYPES or not NO_SCOPE <= scope < MOST_SCOPES:
        raise ValueError(f"no memory access for {dtype!r} in alias scope {scope}")


@cache
def load(dtype: str, scope: int = NO_SCOPE) -> Callable[[int, int], object]:
    """`f(address, index) -> value`: element `index` of the array of `dtype` at `address`."""
    _check(dtype, scope)
    result = _numba_type(dtype)

    @intrinsic
    def load_element(typingctx, address, index):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            value = builder.load(_element(builder, dtype, *args))
            _mark_scope(builder.module, value, scope)
            return builder.icmp_unsigned("!=", value, _I8(0)) if dtype == "bool" else value

        return result(types.int64, types.uint64), codegen

    return load_element


@cache
def store(dtype: str, scope: int = NO_SCOPE) -> Callable[[int, int, object], None]:
    """`f(address, index, value)`: set element `index` of the array of `dtype` at `address`."""
    _check(dtype, scope)
    element = _numba_type(dtype)

    @intrinsic
    def store_element(typingctx, address, index, value):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            address, index, value = args
            if dtype == "bool":
                value = builder.zext(value, _I8)
            done = builder.store(value, _element(builder, dtype, address, index))
            _mark_scope(builder.module, done, scope)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, element), codegen

    return store_element


# --- the frame --------------------------------------------------------------------------------


@cache
def frame_get(dtype: str) -> Callable[[int, int], object]:
    """`f(frame, slot) -> value`: the low bytes of the slot, bit for bit."""
    _check(dtype, NO_SCOPE)
    result = _numba_type(dtype)

    @intrinsic
    def get_slot(typingctx, frame, slot):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            place = _element(builder, "int64", *args)
            value = builder.load(builder.bitcast(place, _memory_type(dtype).as_pointer()))
            return builder.icmp_unsigned("!=", value, _I8(0)) if dtype == "bool" else value

        return result(types.int64, types.uint64), codegen

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
def frame_set(dtype: str) -> Callable[[int, int, object], None]:
    """`f(frame, slot, value)`: set the whole slot, so that an integer in it can be a size."""
    _check(dtype, NO_SCOPE)
    element = _numba_type(dtype)

    @intrinsic
    def set_slot(typingctx, frame, slot, value):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            frame, slot, value = args
            builder.store(_widen(builder, dtype, value), _element(builder, "int64", frame, slot))
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, element), codegen

    return set_slot


def _slot(builder: ir.IRBuilder, frame: ir.Value, slot: int) -> ir.Value:
    return builder.load(_element(builder, "int64", frame, _I64(slot)))


def _chunk_bound(builder: ir.IRBuilder, frame: ir.Value, chunk: ir.Value) -> ir.Value:
    """trip * chunk // chunks without overflow: q*chunk + r*chunk//chunks, trip = q*chunks + r."""
    chunks, trip = _slot(builder, frame, CHUNKS_SLOT), _slot(builder, frame, TRIP_SLOT)
    whole, rest = builder.udiv(trip, chunks), builder.urem(trip, chunks)
    part = builder.udiv(builder.mul(rest, chunk), chunks)
    return builder.add(builder.mul(whole, chunk), part)


@intrinsic
def chunk_start(typingctx, frame, chunk):  # type: ignore[no-untyped-def]
    """`chunk_start(frame, chunk) -> uint64`: the first iteration of the chunk."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _chunk_bound(builder, *args)

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def chunk_stop(typingctx, frame, chunk):  # type: ignore[no-untyped-def]
    """`chunk_stop(frame, chunk) -> uint64`: the iteration after the last one of the chunk."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        frame, chunk = args
        return _chunk_bound(builder, frame, builder.add(chunk, _I64(1)))

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def cancelled(typingctx, frame):  # type: ignore[no-untyped-def]
    """`cancelled(frame) -> bool`: whether the kernel shall return; read anew at each call."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        flag = builder.inttoptr(_slot(builder, args[0], CANCEL_SLOT), _I64.as_pointer())
        value = builder.load_atomic(flag, "monotonic", 8)
        return builder.icmp_unsigned("!=", value, _I64(0))

    return types.boolean(types.int64), codegen


@intrinsic
def tick(typingctx, frame, chunk, count):  # type: ignore[no-untyped-def]
    """`tick(frame, chunk, count)`: the chunk has finished `count` more iterations."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        frame, chunk, count = args
        index = builder.mul(chunk, _I64(TICK_STRIDE))
        place = _element(builder, "int64", _slot(builder, frame, TICKS_SLOT), index)
        total = builder.add(builder.load_atomic(place, "monotonic", 8), count)
        builder.store_atomic(total, place, "monotonic", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def fail(typingctx, frame, chunk, number, index, value, size):  # type: ignore[no-untyped-def]
    """`fail(frame, chunk, number, index, value, size)`: write the status record; then return."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        frame, chunk, number, *operands = args
        record = _element(
            builder,
            "int64",
            _slot(builder, frame, STATUS_SLOT),
            builder.mul(chunk, _I64(STATUS_FIELDS)),
        )
        for field, word in enumerate([builder.add(number, _I64(1)), *operands]):
            builder.store(word, builder.gep(record, [_I64(field)]))
        failed = _element(builder, "int64", frame, _I64(FAILED_SLOT))
        builder.store_atomic(_I64(1), failed, "monotonic", 8)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), codegen


@intrinsic
def bits_of_f64(typingctx, value):  # type: ignore[no-untyped-def]
    """`bits_of_f64(x) -> int64`: how `fail` takes a float operand."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], _I64)

    return types.int64(types.float64), codegen


# --- reductions -------------------------------------------------------------------------------

_REORDER = ("reassoc", "contract")


def _combiner(  # type: ignore[no-untyped-def]
    name, of_floats, of_signed, of_unsigned, doc
):
    """An intrinsic of two numbers of one type, from what builds it for floats and integers."""

    def combine(typingctx, a, b):  # type: ignore[no-untyped-def]
        result = typingctx.unify_types(a, b)
        if not isinstance(result, types.Float | types.Integer):
            return None

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            if isinstance(result, types.Float):
                return of_floats(builder, *args)
            return (of_signed if result.signed else of_unsigned)(builder, *args)

        return result(result, result), codegen

    combine.__name__ = combine.__qualname__ = name
    combine.__doc__ = doc
    return intrinsic(combine)


def _call_binary(name):  # type: ignore[no-untyped-def]
    """What builds a call of the LLVM intrinsic `name` of two values of one type."""

    def build(builder, a, b):  # type: ignore[no-untyped-def]
        suffix = {"double": "f64", "float": "f32"}.get(str(a.type), str(a.type))
        kind = ir.FunctionType(a.type, [a.type, a.type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{suffix}")
        return builder.call(function, [a, b])

    return build


def _integer(method):  # type: ignore[no-untyped-def]
    return lambda builder, a, b: getattr(builder, method)(a, b)


def _float(method, flags):  # type: ignore[no-untyped-def]
    return lambda builder, a, b: getattr(builder, method)(a, b, flags=flags)


reduce_add = _combiner(
    "reduce_add",
    _float("fadd", _REORDER),
    _integer("add"),
    _integer("add"),
    "`a + b` in a reduction whose order is unspecified; may be fused with `contract_mul`.",
)
reduce_mul = _combiner(
    "reduce_mul",
    _float("fmul", _REORDER),
    _integer("mul"),
    _integer("mul"),
    "`a * b` in a reduction whose order is unspecified.",
)
reduce_min = _combiner(
    "reduce_min",
    _call_binary("minimum"),
    _call_binary("smin"),
    _call_binary("umin"),
    "The smaller one; NaN if either is, as numpy's `minimum`.",
)
reduce_max = _combiner(
    "reduce_max",
    _call_binary("maximum"),
    _call_binary("smax"),
    _call_binary("umax"),
    "The larger one; NaN if either is, as numpy's `maximum`.",
)
contract_mul = _combiner(
    "contract_mul",
    _float("fmul", ("contract",)),
    _integer("mul"),
    _integer("mul"),
    "`a * b` that may be fused with the `reduce_add` that takes it.",
)
