"""Size expressions as Python functions of the frame's words.

A launch evaluates several of them, so each becomes one compiled Python expression: a tenth of the
time of walking the expression, or of nested closures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, assert_never, cast

import numpy as np

from peffects.codegen.program.loop_programs import (
    PARTIALS_BYTES,
    UNBOUNDED_NS,
    Buffer,
    ChunkRule,
    Const,
    Launch,
    Natural,
    Role,
    SizeExpr,
    SizeProduct,
    SizeQuotient,
    SizeSum,
    SlotSize,
    Stage,
    Within,
)

__all__ = [
    "Shape",
    "Size",
    "Words",
    "bytes_of",
    "chunk_count",
    "shape_function",
    "size_function",
    "words_function",
    "work_estimate",
]

Size: TypeAlias = "Callable[[memoryview], int]"
Words: TypeAlias = "Callable[[memoryview], tuple[int, ...]]"
Shape: TypeAlias = "Callable[[memoryview], tuple[tuple[int, ...], int]]"

_FEW_CHUNKS, _FEW_NS_A_BYTE, _MANY_NS_A_BYTE = 8, 1, 5
"""The least estimated work of a chunk for each byte of its PARTIALS: of up to eight, of more."""


def size_function(size: SizeExpr) -> Size:
    """A function of the frame's words that evaluates `size`."""
    return cast(Size, eval(f"lambda w: {_text(_folded(size))}"))


def words_function(sizes: Sequence[SizeExpr]) -> Words:
    """A function of the frame's words that evaluates all `sizes`."""
    texts = "".join(f"{_text(_folded(size))}, " for size in sizes)
    return cast(Words, eval(f"lambda w: ({texts})"))


def shape_function(shape: Sequence[SizeExpr], itemsize: int) -> Shape:
    """A function of the frame's words that gives a shape, and the bytes that it takes."""
    dims = [_folded(dim) for dim in shape]
    count = _text(_folded(SizeProduct((Const(itemsize), *dims))))
    texts = "".join(f"{_text(dim)}, " for dim in dims)
    return cast(Shape, eval(f"lambda w: (({texts}), {count})"))


def work_estimate(stages: Iterable[Stage]) -> SizeExpr:
    """The estimated nanoseconds of one thread that `stages` take."""
    return SizeSum(tuple(map(_work, stages)))


def bytes_of(buffers: Iterable[Buffer], *roles: Role) -> SizeExpr:
    """The bytes of those with one of these roles, of one chunk's part."""
    sizes = [
        SizeProduct((Const(np.dtype(buffer.dtype).itemsize), *buffer.shape))
        for buffer in buffers
        if buffer.role in roles
    ]
    return SizeSum(tuple(sizes)) if sizes else Const(0)


def chunk_count(rule: ChunkRule, trip: int, work_ns: int, partials: int, own: int) -> int:
    """Into how many chunks a stage is cut; `partials` and `own` are what one has, in bytes.

    Setting PARTIALS to zero and adding them up takes about a tenth of a nanosecond a byte, and
    estimates of work are up to four times too high.  So many chunks cost less than a tenth of the
    work of the loop, few of them less than half.
    """
    count = min(rule.most, trip, work_ns // rule.grain_ns)
    if partials:
        few = min(_FEW_CHUNKS, work_ns // (_FEW_NS_A_BYTE * partials))
        count = min(count, max(work_ns // (_MANY_NS_A_BYTE * partials), few))
    if own * count > PARTIALS_BYTES:
        count = PARTIALS_BYTES // own
    return max(count, 1)


def _work(stage: Stage) -> SizeExpr:
    if isinstance(stage, Launch):
        return stage.work_ns
    if stage.test:
        work: SizeExpr = Const(UNBOUNDED_NS)
    else:
        work = SizeProduct((stage.trip, work_estimate(stage.stages)))
    return work if stage.only is None else stage.only.times(work)


def _text(size: SizeExpr) -> str:
    match size:
        case Const(value):
            return f"({int(value)})"
        case SlotSize(slot):
            return f"w[{int(slot)}]"
        case SizeProduct(terms):
            return f"({'*'.join(map(_text, terms))})"
        case SizeSum(terms):
            return f"({'+'.join(map(_text, terms))})"
        case SizeQuotient(size, divisor):
            return f"(-(-{_text(size)}//{int(divisor)}))"
        case Natural(size):
            return f"max(0,{_text(size)})"
        case Within(size, least, below, value):
            return f"({_text(value)} if {int(least)}<={_text(size)}<{int(below)} else 0)"
        case _:
            assert_never(size)


def _folded(size: SizeExpr) -> SizeExpr:
    """The same size with its constants collected, one to each sum and product."""
    match size:
        case Const() | SlotSize():
            return size
        case SizeProduct(terms):
            constant, rest = _split(terms)
            factor = math.prod(constant)
            if factor == 0 or not rest:
                return Const(factor)
            return _joined(SizeProduct, rest if factor == 1 else (Const(factor), *rest))
        case SizeSum(terms):
            constant, rest = _split(terms)
            total = sum(constant)
            if not rest:
                return Const(total)
            return _joined(SizeSum, rest if total == 0 else (Const(total), *rest))
        case SizeQuotient(size, divisor):
            whole = _folded(size)
            if isinstance(whole, Const):
                return Const(-(-whole.value // divisor))
            return SizeQuotient(whole, divisor)
        case Natural(size):
            whole = _folded(size)
            return Const(max(0, whole.value)) if isinstance(whole, Const) else Natural(whole)
        case Within(size, least, below, value):
            whole, chosen = _folded(size), _folded(value)
            if isinstance(whole, Const):
                return chosen if least <= whole.value < below else Const(0)
            return Within(whole, least, below, chosen)
        case _:
            assert_never(size)


def _split(terms: Iterable[SizeExpr]) -> tuple[list[int], tuple[SizeExpr, ...]]:
    folded = [_folded(term) for term in terms]
    constant = [term.value for term in folded if isinstance(term, Const)]
    return constant, tuple(term for term in folded if not isinstance(term, Const))


def _joined(form: type[SizeProduct] | type[SizeSum], terms: tuple[SizeExpr, ...]) -> SizeExpr:
    return terms[0] if len(terms) == 1 else form(terms)
