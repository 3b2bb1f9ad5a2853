"""The frame of the kernels that multiply matrices: what `matrix_product.py` reads, by position.

`lower/products.py` says what is in each slot.  Strides and offsets count elements; those of an axis
that an operand does not have are 0.
"""

from __future__ import annotations

from peffects.codegen.program.loop_programs import FIRST_FREE_SLOT
from peffects.ir.products import MOST_BATCH

__all__ = [
    "A_BATCH",
    "A_K",
    "A_ROW",
    "BATCH_SIZE",
    "BLOCK_COLUMNS",
    "BLOCK_ROWS",
    "B_BATCH",
    "B_COLUMN",
    "B_K",
    "COLUMNS",
    "C_BATCH",
    "C_ROW",
    "DEPTH",
    "FRAME_SLOTS",
    "FRESH",
    "GROUP_COLUMNS",
    "INNER",
    "MOST_BATCH",
    "MOST_TILE_COLUMNS",
    "PACKED",
    "PACKED_BATCH",
    "PRODUCT_DTYPES",
    "ROWS",
    "SCALES",
    "SCRATCH",
    "SCRATCH_ELEMENTS",
    "A",
    "B",
    "C",
    "kernel_name",
]

PRODUCT_DTYPES = ("float64", "float32")
"""The types of elements that there are kernels for."""
_first = FIRST_FREE_SLOT
A, B, C, PACKED, SCRATCH = range(_first, _first + 5)
"""Addresses: of the operands and of the result, of b packed, of what each chunk packs of a."""
ROWS, COLUMNS, INNER = range(_first + 5, _first + 8)
A_ROW, A_K, B_K, B_COLUMN, C_ROW = range(_first + 8, _first + 13)
FRESH = _first + 13
"""1 if c holds nothing yet, 0 if the product is added to it."""
SCALES = _first + 14
"""1 if 0 times infinity or nan is 0, as in derivatives."""
BATCH_SIZE, A_BATCH, B_BATCH, C_BATCH, PACKED_BATCH = range(
    _first + 15, _first + 15 + 5 * MOST_BATCH, MOST_BATCH
)
"""For each batch axis: its size and strides; that of packed b counts whole matrices."""
FRAME_SLOTS = _first + 15 + 5 * MOST_BATCH

DEPTH = 256
"""Products that are added in registers before they are added to memory."""
GROUP_COLUMNS = 96
"""Columns that one iteration of `pack` packs: a multiple of the columns of any tile."""
BLOCK_ROWS, BLOCK_COLUMNS = 48, 960
"""The part of c that one iteration of `multiply` computes: multiples of any tile's shape."""
MOST_TILE_COLUMNS = 48
SCRATCH_ELEMENTS = BLOCK_ROWS * DEPTH + 16 * MOST_TILE_COLUMNS
"""What a chunk packs of a, and a tile for the edges of c."""


def kernel_name(role: str, dtype: str) -> str:
    """The name of the kernel `pack` or `multiply` for elements of `dtype`."""
    return f"{role}_{dtype}"
