"""Small loop programs with hand-written kernels, of the form that the lowering generates."""

from __future__ import annotations

from peffects.codegen.launcher import Executable
from peffects.codegen.loader import load
from peffects.codegen.loops import (
    FREE,
    REDUCING,
    Buffer,
    Const,
    Failure,
    InputArray,
    InputScalar,
    InputSize,
    Launch,
    LoopProgram,
    OutputBuffer,
    OutputScalar,
    Product,
    Role,
    SlotSize,
)
from peffects.errors import BoundsError
from peffects.source import SrcInfo

HEAD = """
from peffects.codegen.intrinsics import (
    bits_of_f64, cancelled, chunk_start, chunk_stop, contract_mul, fail, frame_get, frame_set,
    load, reduce_add, reduce_max, reduce_min, reduce_mul, store, tick,
)
i64, f64, set_i64, set_f64 = (
    frame_get("int64"), frame_get("float64"), frame_set("int64"), frame_set("float64"))
load_0, load_1 = load("float64", 0), load("float64", 1)
store_2 = store("float64", 2)
"""

SCALED_SUM = (
    HEAD
    + """
def scaled_sum(chunk, frame):
    x, y, out, a = i64(frame, 8), i64(frame, 9), i64(frame, 12), f64(frame, 10)
    start, stop = chunk_start(frame, chunk), chunk_stop(frame, chunk)
    for i in range(start, stop):
        store_2(out, i, a * load_0(x, i) + load_1(y, i))
    tick(frame, chunk, stop - start)
"""
)


def scaled_sum(work_ns: int = 1) -> Executable:
    """`out[i] = a * x[i] + y[i]`; `work_ns` is the work of an iteration."""
    n = SlotSize(11)
    launch = Launch(
        "scaled_sum",
        n,
        FREE,
        (Buffer(12, "float64", (n,), Role.OUTPUT),),
        Product((n, Const(work_ns))),
    )
    program = LoopProgram(
        "scaled_sum",
        13,
        (
            InputArray(8, "float64", 1),
            InputArray(9, "float64", 1),
            InputScalar(10, "float64"),
            InputSize(11),
        ),
        (launch,),
        (OutputBuffer(12, "float64", (n,)),),
    )
    return Executable(program, load(SCALED_SUM, ["scaled_sum"]))
