"""Matrix products of the spine: two stages that run the kernels of `native/matrix_product.py`.

What `ir/products.py` recognises becomes a stage that packs one operand and one that multiplies.
Sizes and strides go into the frame of these kernels, which `program/product_frame.py` lays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peffects.codegen.lower.kernel import TablePlace
from peffects.codegen.lower.stages import StageBuilder, Stages
from peffects.codegen.program import product_frame as frame
from peffects.codegen.program.loop_ir import Local, Memory
from peffects.codegen.program.loop_programs import (
    FIRST_FREE_SLOT,
    FREE,
    Buffer,
    Const,
    OwnFrame,
    Role,
    SizeExpr,
    SizeProduct,
    SizeQuotient,
    SizeSum,
    SlotSize,
    Within,
)
from peffects.ir.products import MatrixProduct, Operand, element_type
from peffects.ir.syntax import Atom, Lit, Var
from peffects.ir.typing import set_of
from peffects.source import SrcInfo

__all__ = ["LEAST_OPERATIONS", "multiply", "operations"]

LEAST_OPERATIONS = 1 << 15
"""Below, plain loops have done it before the kernels of a product have started."""

_PER_NS = 20
"""Products and sums that a thread does in a nanosecond, about."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A table of a product as the kernels see it: its address, and the stride of each index."""

    address: SizeExpr
    strides: dict[Var, SizeExpr]

    def stride(self, index: Var) -> SizeExpr:
        return self.strides.get(index, Const(0))


def multiply(
    product: MatrixProduct,
    stages: Stages,
    c: TablePlace,
    fresh: bool,
    at: SrcInfo,
    only: Within | None = None,
) -> list[StageBuilder]:
    """Append the stages and give them; `fresh` says that `c` holds nothing yet."""
    multiplication = _Multiplication(product, stages, at, only)
    multiplication.run(c, fresh)
    return multiplication.opened


def operations(product: MatrixProduct, stages: Stages) -> SizeExpr:
    """How many products of numbers it is the sum of: what the choice of a way depends on."""
    sizes = [set_of(index).size for index in (*product.out, product.inner)]
    return SizeProduct(stages.shape(sizes))


class _Multiplication:
    def __init__(
        self, product: MatrixProduct, stages: Stages, at: SrcInfo, only: Within | None
    ) -> None:
        self.product, self.stages, self.at, self.only = product, stages, at, only
        self.elem = element_type(product)
        self.opened: list[StageBuilder] = []
        stages.close()

    def run(self, c: TablePlace, fresh: bool) -> None:
        """Append a stage that packs the right operand and one that multiplies."""
        product, elem = self.product, self.elem
        m, n, k = map(self.size, (product.row, product.column, product.inner))
        sizes = [self.size(index) for index in product.batch]
        matrices = [self.size(index) for index in product.batch if index in product.right.indices]
        packed, lines = (self.stages.frame.memory(name, elem) for name in ("packed", "lines"))
        start = self.stages.frame.new_slots(frame.FRAME_SLOTS)
        own = OwnFrame(start, self.words(c, fresh, packed, lines))

        pack = self.open("pack", own)
        shape = (*matrices, SizeSum((n, Const(frame.MOST_TILE_COLUMNS))), k)
        pack.k.buffers.append(Buffer(packed.slot, elem.dtype, shape, Role.TEMPORARY, self.at))
        pack.trip = SizeProduct((*matrices, SizeQuotient(n, frame.GROUP_COLUMNS)))
        pack.work = (SizeProduct((*matrices, n, k)),)

        main = self.open("multiply", own)
        shape = (Const(frame.SCRATCH_ELEMENTS),)
        main.k.buffers.append(Buffer(lines.slot, elem.dtype, shape, Role.SCRATCH, self.at))
        blocks = (SizeQuotient(m, frame.BLOCK_ROWS), SizeQuotient(n, frame.BLOCK_COLUMNS))
        main.trip = SizeProduct((*sizes, *blocks))
        main.work = (SizeQuotient(SizeProduct((*sizes, m, n, k)), _PER_NS),)
        self.stages.close()

    def open(self, role: str, own: OwnFrame) -> StageBuilder:
        """A stage that runs one of the kernels."""
        stage = self.stages.open(self.at)
        stage.library = (frame.kernel_name(role, self.elem.dtype), own)
        stage.rule, stage.only = FREE, self.only
        self.opened.append(stage)
        return stage

    # --- what the kernels read ----------------------------------------------------------------

    def words(
        self, c: TablePlace, fresh: bool, packed: Memory, lines: Memory
    ) -> tuple[SizeExpr, ...]:
        """What is in the frame of the kernels, behind the launcher's slots."""
        product = self.product
        row, column, inner = product.row, product.column, product.inner
        a, b = self.operand(product.left), self.operand(product.right)
        to = self.matrix(c, product.out)
        found: dict[int, SizeExpr] = {
            frame.A: a.address,
            frame.B: b.address,
            frame.C: to.address,
            frame.PACKED: SlotSize(packed.slot),
            frame.SCRATCH: SlotSize(lines.slot),
            frame.ROWS: self.size(row),
            frame.COLUMNS: self.size(column),
            frame.INNER: self.size(inner),
            frame.A_ROW: a.stride(row),
            frame.A_K: a.stride(inner),
            frame.B_K: b.stride(inner),
            frame.B_COLUMN: b.stride(column),
            frame.C_ROW: to.stride(row),
            frame.FRESH: Const(int(fresh)),
            frame.SCALES: Const(int(product.scales)),
        }
        matrices: list[SizeExpr] = []  # of the right operand, inside the axis
        for axis in range(frame.MOST_BATCH - 1, -1, -1):
            index = product.batch[axis] if axis < len(product.batch) else None
            size = Const(1) if index is None else self.size(index)
            found[frame.BATCH_SIZE + axis] = size
            for slot, matrix in ((frame.A_BATCH, a), (frame.B_BATCH, b), (frame.C_BATCH, to)):
                found[slot + axis] = Const(0) if index is None else matrix.stride(index)
            is_packed = index in product.right.indices
            found[frame.PACKED_BATCH + axis] = (
                SizeProduct(tuple(matrices)) if is_packed else Const(0)
            )
            if is_packed:
                matrices.append(size)
        return tuple(found[slot] for slot in range(FIRST_FREE_SLOT, frame.FRAME_SLOTS))

    def size(self, index: Var) -> SizeExpr:
        """The size of the set that a loop variable runs over."""
        return self.known(set_of(index).size)

    def known(self, atom: Atom) -> SizeExpr:
        """A size, or an offset, which earlier stages have computed."""
        (size,) = self.stages.shape([atom])
        return size

    def operand(self, operand: Operand) -> _Matrix:
        """One factor."""
        place = self.stages.scope.values[operand.table]
        assert isinstance(place, TablePlace)
        return self.matrix(place, operand.indices)

    def matrix(self, place: TablePlace, indices: Sequence[Var]) -> _Matrix:
        """A table whose axes these indices run through."""
        offset = place.offset
        at = Const(int(offset.value)) if isinstance(offset, Lit) else self.slot_of(offset)
        address = SizeSum((SlotSize(place.memory.slot), SizeProduct((Const(self.bytes_of), at))))
        dims = [self.known(dim) for dim in place.dims]
        strides: dict[Var, SizeExpr] = {
            index: SizeProduct(tuple(dims[axis + 1 :])) for axis, index in enumerate(indices)
        }
        return _Matrix(address, strides)

    def slot_of(self, offset: Local) -> SizeExpr:
        """The offset of a view, which an earlier stage has computed."""
        return SlotSize(self.stages.frame.slot_of(offset))

    @property
    def bytes_of(self) -> int:
        """The bytes of an element."""
        return int(self.elem.name[1:]) // 8
