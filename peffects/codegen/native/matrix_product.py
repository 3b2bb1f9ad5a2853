"""Matrix products: a kernel that packs one operand, and one that multiplies the other with it.

    c[m, n] (+)= sum_k a[m, k] b[k, n]        for each place in up to MOST_BATCH batch axes

They are compiled once for each type of elements, for all programs.  `pack` brings b into panels, as
wide as a tile, in the order in which they are read; `multiply` takes blocks of c, packs the rows of
a that a block needs into memory of its own, and computes tiles of c, whose sums stay in registers.
Operands have any strides, so transposed ones cost no more; the columns of c lie side by side.

The order in which the products of an element are added depends on k alone, and so do the bits of
the result: not on the number of threads, nor on which block an element is in.  Why no library of
linear algebra is called, `docs/decisions/008-own-matrix-product.md` tells.

In derivatives 0 times infinity or nan is 0.  That costs nothing where it does not occur: a tile
that has a nan is put aside, and what is nan in it is added up again, product by product.

Kernels are `void(chunk, frame)`, in a frame of their own, whose slots `program/product_frame.py`
names.  Imports numba: only `load/loader.py` has it imported.

Paper: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, TOMS 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import int64 as i64
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from peffects.codegen.native.intrinsics import (
    cancelled,
    chunk_start,
    chunk_stop,
    frame_get,
    load,
    store,
    tick,
)
from peffects.codegen.program.product_frame import (
    A_BATCH,
    A_K,
    A_ROW,
    B_BATCH,
    B_COLUMN,
    B_K,
    BATCH_SIZE,
    BLOCK_COLUMNS,
    BLOCK_ROWS,
    C_BATCH,
    C_ROW,
    COLUMNS,
    DEPTH,
    FRESH,
    GROUP_COLUMNS,
    INNER,
    MOST_BATCH,
    PACKED,
    PACKED_BATCH,
    ROWS,
    SCALES,
    SCRATCH,
    SCRATCH_ELEMENTS,
    A,
    B,
    C,
)

__all__ = ["kernels"]

_Kernel: TypeAlias = "Callable[[Any, Any], None]"

_BYTES = {"float64": 8, "float32": 4}
_TILES = {64: (8, 3), 32: (6, 2), 16: (4, 3)}
"""By the bytes of a vector: rows of a tile, and vectors in a row.  Their sums, a row of b and one
element of a fill the vector registers of the machine."""


def _vector_bytes() -> int:
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64
    return 32 if features.get("avx2") else 16


def _tile_shape(dtype: str) -> tuple[int, int]:
    """The rows and columns of a tile."""
    width = _vector_bytes()
    rows, vectors = _TILES[width]
    return rows, vectors * width // _BYTES[dtype]


def kernels(dtype: str) -> tuple[_Kernel, _Kernel]:
    """The kernels `pack` and `multiply` for elements of `dtype`."""
    return _pack(dtype), _multiply(dtype)


def _pack(dtype: str) -> _Kernel:
    """One iteration packs a group of columns of one matrix."""
    bytes_of, (_, columns) = _BYTES[dtype], _tile_shape(dtype)
    get, read, write = frame_get("int64"), load(dtype), store(dtype)
    zero = np.dtype(dtype).type(0)

    def pack(chunk: Any, frame: Any) -> None:
        n, k = get(frame, COLUMNS), get(frame, INNER)
        step_k, step_n = get(frame, B_K), get(frame, B_COLUMN)
        groups = (n + GROUP_COLUMNS - 1) // GROUP_COLUMNS
        panels = (n + columns - 1) // columns
        for task in range(i64(chunk_start(frame, chunk)), i64(chunk_stop(frame, chunk))):
            if cancelled(frame):
                return
            matrix, group = task // groups, task % groups
            at, rest = get(frame, B), matrix
            for axis in range(MOST_BATCH - 1, -1, -1):
                step = get(frame, B_BATCH + axis)
                size = get(frame, BATCH_SIZE + axis) if step != 0 else 1
                at += bytes_of * (rest % size) * step
                rest //= size
            target = get(frame, PACKED) + bytes_of * matrix * panels * columns * k
            end = min((group + 1) * GROUP_COLUMNS, n)
            for first in range(group * GROUP_COLUMNS, end, columns):
                panel, source = target + bytes_of * first * k, at + bytes_of * first * step_n
                width = min(columns, n - first)
                if step_n == 1:
                    for p in range(k):
                        for j in range(width):
                            write(panel, p * columns + j, read(source, p * step_k + j))
                else:
                    for j in range(width):
                        for p in range(k):
                            value = read(source, p * step_k + j * step_n)
                            write(panel, p * columns + j, value)
                for p in range(k):
                    for j in range(width, columns):
                        write(panel, p * columns + j, zero)
            tick(frame, chunk, 1)

    return pack


def _pack_lines(dtype: str) -> Callable[..., None]:
    """What packs `depth` columns of the rows i0 .. i1-1 of `a`, by as many rows as a tile has."""
    bytes_of, (rows, _) = _BYTES[dtype], _tile_shape(dtype)
    read, write, zero = load(dtype), store(dtype), np.dtype(dtype).type(0)

    @register_jitable
    def pack_lines(
        lines: Any, a: Any, i0: Any, i1: Any, depth: Any, step_m: Any, step_k: Any
    ) -> None:
        for i in range(i0, i1, rows):
            line = lines + bytes_of * (i - i0) * depth
            source = a + bytes_of * i * step_m
            height = min(rows, i1 - i)
            if step_m == 1:
                for p in range(depth):
                    for r in range(height):
                        write(line, p * rows + r, read(source, p * step_k + r))
            else:
                for r in range(height):
                    for p in range(depth):
                        write(line, p * rows + r, read(source, p * step_k + r * step_m))
            for p in range(depth):
                for r in range(height, rows):
                    write(line, p * rows + r, zero)

    return pack_lines


def _multiply(dtype: str) -> _Kernel:
    """One iteration computes a block of c."""
    bytes_of, (rows, columns) = _BYTES[dtype], _tile_shape(dtype)
    get, read, write, tile = frame_get("int64"), load(dtype), store(dtype), _tile(dtype)
    pack_lines, scaled_sum = _pack_lines(dtype), _scaled_sum(dtype)

    def multiply(chunk: Any, frame: Any) -> None:
        m, n, k = get(frame, ROWS), get(frame, COLUMNS), get(frame, INNER)
        step_m, step_k, step_c = get(frame, A_ROW), get(frame, A_K), get(frame, C_ROW)
        down, across = (m + BLOCK_ROWS - 1) // BLOCK_ROWS, (n + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
        panels = (n + columns - 1) // columns
        lines = get(frame, SCRATCH) + bytes_of * chunk * SCRATCH_ELEMENTS
        edge = lines + bytes_of * BLOCK_ROWS * DEPTH
        aside = edge if get(frame, SCALES) != 0 else 0
        for task in range(i64(chunk_start(frame, chunk)), i64(chunk_stop(frame, chunk))):
            block, rest = task % (down * across), task // (down * across)
            i0, j0 = block // across * BLOCK_ROWS, block % across * BLOCK_COLUMNS
            i1, j1 = min(i0 + BLOCK_ROWS, m), min(j0 + BLOCK_COLUMNS, n)
            a, c, packed = get(frame, A), get(frame, C), 0
            for axis in range(MOST_BATCH - 1, -1, -1):
                size = get(frame, BATCH_SIZE + axis)
                place, rest = rest % size, rest // size
                a += bytes_of * place * get(frame, A_BATCH + axis)
                c += bytes_of * place * get(frame, C_BATCH + axis)
                packed += place * get(frame, PACKED_BATCH + axis)
            b = get(frame, PACKED) + bytes_of * packed * panels * columns * k
            for p0 in range(0, max(k, 1), DEPTH):
                if cancelled(frame):
                    return
                depth = min(k - p0, DEPTH)
                fresh = p0 == 0 and get(frame, FRESH) != 0
                pack_lines(lines, a + bytes_of * p0 * step_k, i0, i1, depth, step_m, step_k)
                for j in range(j0, j1, columns):
                    panel = b + bytes_of * (j * k + p0 * columns)
                    width = min(columns, j1 - j)
                    for i in range(i0, i1, rows):
                        height = min(rows, i1 - i)
                        line = lines + bytes_of * (i - i0) * depth
                        place = c + bytes_of * (i * step_c + j)
                        whole = height == rows and width == columns
                        target, step = place if whole else edge, step_c if whole else columns
                        has_nan = tile(depth, line, panel, target, step, fresh or not whole, aside)
                        for r in range(height if has_nan or not whole else 0):
                            for s in range(width):
                                value = read(edge, r * columns + s)
                                if has_nan:
                                    value = scaled_sum(value, line, panel, r, s, depth)
                                if not fresh:
                                    value = read(place, r * step_c + s) + value
                                write(place, r * step_c + s, value)
            tick(frame, chunk, 1)

    return multiply


def _scaled_sum(dtype: str) -> Callable[..., Any]:
    """What gives an element of a tile: `value`, or where that is nan, the sum with 0 nan = 0."""
    (rows, columns), read, zero = _tile_shape(dtype), load(dtype), np.dtype(dtype).type(0)

    @register_jitable
    def scaled_sum(value: Any, line: Any, panel: Any, r: Any, s: Any, depth: Any) -> Any:
        if value == value:
            return value
        total = zero
        for p in range(depth):
            x, y = read(line, p * rows + r), read(panel, p * columns + s)
            if x != zero and y != zero:
                total = total + x * y
        return total

    return scaled_sum


def _tile(dtype: str) -> Callable[..., Any]:
    """`tile(k, a, b, c, step, fresh, aside)`: a tile of c (+)= a b, with a and b packed.

    `step` is the distance of two rows of c.  If `aside` is not 0 and the product has a nan, the
    product goes there in place of c; whether it did is the result.
    """
    signature = types.boolean(*[types.int64] * 5, types.boolean, types.int64)

    def codegen(context: Any, builder: ir.IRBuilder, _: object, args: Any) -> Any:
        return _Tile(builder, dtype).run(*args)

    def tile(
        typingctx: Any, length: Any, a: Any, b: Any, c: Any, step: Any, fresh: Any, aside: Any
    ) -> tuple[Any, Any]:
        return signature, codegen

    made: Callable[..., Any] = intrinsic(tile)
    return made


class _Tile:
    """Emits the loop over k, with one vector register for each part of a row of the tile."""

    def __init__(self, builder: ir.IRBuilder, dtype: str) -> None:
        self.builder, self.bytes_of = builder, _BYTES[dtype]
        self.rows, self.columns = _tile_shape(dtype)
        self.lanes = _vector_bytes() // self.bytes_of
        self.element = ir.DoubleType() if dtype == "float64" else ir.FloatType()
        self.kind = ir.VectorType(self.element, self.lanes)
        self.word = ir.IntType(64)
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.bytes_of}"
        fused = ir.FunctionType(self.kind, [self.kind] * 3)
        self.times_plus = cgutils.get_or_insert_function(builder.module, fused, name)

    def run(self, length: Any, a: Any, b: Any, c: Any, step: Any, fresh: Any, aside: Any) -> Any:
        """Emit all; whether the product has gone aside."""
        builder = self.builder
        before = builder.block
        loop, after = (builder.append_basic_block(name) for name in ("tile", "tiled"))
        nothing = self.kind(None)
        builder.cbranch(builder.icmp_signed(">", length, self.word(0)), loop, after)
        builder.position_at_end(loop)
        at = builder.phi(self.word)
        sums = [builder.phi(self.kind) for _ in range(self.rows * self.columns // self.lanes)]
        new = self.step(a, b, at, sums)
        following = builder.add(at, self.word(1))
        for phi, first, then in [(at, self.word(0), following)] + [
            (phi, nothing, value) for phi, value in zip(sums, new, strict=True)
        ]:
            phi.add_incoming(first, before)
            phi.add_incoming(then, loop)
        builder.cbranch(builder.icmp_signed("<", following, length), loop, after)
        builder.position_at_end(after)
        totals = [builder.phi(self.kind) for _ in sums]
        for phi, value in zip(totals, new, strict=True):
            phi.add_incoming(nothing, before)
            phi.add_incoming(value, loop)
        has_nan = builder.and_(builder.icmp_signed("!=", aside, self.word(0)), self.has_nan(totals))
        with builder.if_else(has_nan, likely=False) as (rare, usual):
            with rare:
                self.leave(totals, aside, self.word(self.columns), ir.IntType(1)(1))
            with usual:
                self.leave(totals, c, step, fresh)
        return has_nan

    def has_nan(self, totals: list[Any]) -> Any:
        """Whether a sum is nan; infinities may say so, too."""
        builder, everything = self.builder, totals[0]
        for total in totals[1:]:
            everything = builder.fadd(everything, total)
        lanes = [builder.extract_element(everything, self.word(k)) for k in range(self.lanes)]
        one = lanes[0]
        for lane in lanes[1:]:
            one = builder.fadd(one, lane)
        return builder.fcmp_unordered("uno", one, one)

    def step(self, a: Any, b: Any, at: Any, sums: list[Any]) -> list[Any]:
        """One row of b times one element for each row of the tile."""
        builder, vectors = self.builder, self.columns // self.lanes
        first = builder.mul(at, self.word(self.columns))
        row = [self.vector(b, first, v) for v in range(vectors)]
        elements = self.pointer(a, builder.mul(at, self.word(self.rows)), self.element)
        new = []
        for number, total in enumerate(sums):
            if number % vectors == 0:
                element = builder.load(builder.gep(elements, [self.word(number // vectors)]))
                factor = self.spread(element)
            new.append(builder.call(self.times_plus, [factor, row[number % vectors], total]))
        return new

    def leave(self, totals: list[Any], c: Any, step: Any, fresh: Any) -> None:
        """Write the sums to c, or add them to it."""
        builder, vectors = self.builder, self.columns // self.lanes
        for number, total in enumerate(totals):
            first = builder.mul(step, self.word(number // vectors))
            old = self.vector(c, first, number % vectors)
            before = builder.select(fresh, self.kind(None), old)
            builder.store(builder.fadd(before, total), old.operands[0], align=self.bytes_of)

    def pointer(self, base: Any, index: Any, t: ir.Type) -> Any:
        """The address of an element."""
        offset = self.builder.mul(index, self.word(self.bytes_of))
        return self.builder.inttoptr(self.builder.add(base, offset), t.as_pointer())

    def vector(self, base: Any, first: Any, number: int) -> Any:
        """Part `number` of the row that starts at element `first`."""
        at = self.builder.add(first, self.word(number * self.lanes))
        value = self.builder.load(self.pointer(base, at, self.kind))
        value.align = self.bytes_of
        return value

    def spread(self, element: Any) -> Any:
        """A vector with the same element in all lanes."""
        unknown, small = self.kind(ir.Undefined), ir.IntType(32)
        single = self.builder.insert_element(unknown, element, small(0))
        first = ir.VectorType(small, self.lanes)(None)
        return self.builder.shuffle_vector(single, unknown, first)
