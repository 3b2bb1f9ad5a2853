"""Loop programs with hand-written kernels, of the form that the lowering generates."""

from __future__ import annotations

from collections.abc import Sequence

from peffects.codegen.launch.launcher import Executable
from peffects.codegen.load.loader import load
from peffects.codegen.program.loop_programs import (
    FREE,
    REDUCING,
    SERIAL,
    Buffer,
    ChunkRule,
    Const,
    Failure,
    HostLoop,
    Input,
    InputArray,
    InputScalar,
    InputSize,
    Launch,
    LoopProgram,
    Output,
    OutputBuffer,
    OutputScalar,
    Role,
    SizeExpr,
    SizeProduct,
    SlotSize,
    Stage,
)
from peffects.errors import BoundsError, ValueRangeError
from peffects.source import SrcInfo

KERNELS = '''
from peffects.codegen.native.intrinsics import (
    bits_of_f64, cancelled, chunk_start, chunk_stop, contract_mul, fail, frame_get, frame_set,
    load, reduce_add, store, tick,
)
i64, f64, set_i64, set_f64 = (
    frame_get("int64"), frame_get("float64"), frame_set("int64"), frame_set("float64"))
load_0, load_1, store_2 = load("float64", 0), load("float64", 1), store("float64", 2)
load_any, store_any = load("float64"), store("float64")
load_index = load("int64", 3)
word = load("int64")

def scaled_sum(chunk, frame):
    x, y, out, a = i64(frame, 8), i64(frame, 9), i64(frame, 12), f64(frame, 10)
    start, stop = chunk_start(frame, chunk), chunk_stop(frame, chunk)
    for i in range(start, stop):
        store_2(out, i, a * load_0(x, i) + load_1(y, i))
    tick(frame, chunk, stop - start)

def dot_parts(chunk, frame):
    x, y, parts = i64(frame, 8), i64(frame, 9), i64(frame, 12)
    total = 0.0
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        total = reduce_add(total, contract_mul(load_0(x, i), load_1(y, i)))
    store_2(parts, chunk, total)

def add_parts(chunk, frame):
    parts, total = i64(frame, 12), 0.0
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        total += load_0(parts, i)
    set_f64(frame, 14, total)

def gather(chunk, frame):
    x, index, out, n = i64(frame, 8), i64(frame, 9), i64(frame, 12), i64(frame, 10)
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        k = load_index(index, i)
        if k < 0 or k >= n:
            fail(frame, chunk, 0, i, k, n)
            return
        value = load_0(x, k)
        if value != value:
            fail(frame, chunk, 1, i, bits_of_f64(value), bits_of_f64(0.5))
            return
        store_2(out, i, value)
        tick(frame, chunk, 1)

def linger(chunk, frame):
    """Work of `rounds` steps an iteration, polling after each iteration."""
    rounds, total = i64(frame, 9), 1.0
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        if cancelled(frame):
            return
        for _ in range(rounds):
            total = total * 0.5 + 1.0 / total
        tick(frame, chunk, 1)
    store_any(i64(frame, 10), chunk, total)

def start_state(chunk, frame):
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        store_any(i64(frame, 12), i, load_any(i64(frame, 8), i))

def step_state(chunk, frame):
    """state[i] = state[i] / 2 + step, by way of a temporary."""
    state, old, step = i64(frame, 12), i64(frame, 13), i64(frame, 11)
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        store_any(old, i, load_any(state, i))
        store_any(state, i, 0.5 * load_any(old, i) + step)

def row_medians(chunk, frame):
    """The middle one of each row of x, sorted in the chunk's scratch row."""
    x, out, m = i64(frame, 8), i64(frame, 12), i64(frame, 11)
    row = i64(frame, 13) + 8 * chunk * m
    for i in range(chunk_start(frame, chunk), chunk_stop(frame, chunk)):
        for j in range(m):
            value, k = load_any(x, i * m + j), j
            while k > 0 and load_any(row, k - 1) > value:
                store_any(row, k, load_any(row, k - 1))
                k -= 1
            store_any(row, k, value)
        store_any(out, i, load_any(row, m // 2))

def wait_for_others(chunk, frame):
    """The first chunk ends when all others have: only if chunks are not dealt out beforehand."""
    chunks, ticks = i64(frame, 3), i64(frame, 2)
    if chunk > 0:
        tick(frame, chunk, 1)
        return
    done = 0
    while done < chunks - 1 and not cancelled(frame):
        done = 0
        for c in range(1, chunks):
            done += word(ticks, 8 * c)
    set_i64(frame, 9, done)

def negate(chunk, frame):
    set_f64(frame, 9, -f64(frame, 8))
'''

HERE = SrcInfo("model.py", 7, 4, "step")
N = SlotSize(11)


def executable(
    kernels: Sequence[str],
    slots: int,
    inputs: tuple[Input, ...],
    stages: tuple[Stage, ...],
    outputs: tuple[Output, ...],
    failures: tuple[Failure, ...] = (),
) -> Executable:
    """A program of KERNELS, named after its first one."""
    program = LoopProgram(kernels[0], slots, inputs, stages, outputs, failures, HERE)
    return Executable(program, load(KERNELS, kernels))


def each(n: SizeExpr, work_ns: int) -> SizeExpr:
    """The work of `n` iterations of `work_ns` each."""
    return SizeProduct((n, Const(work_ns)))


def scaled_sum(work_ns: int = 1) -> Executable:
    """(x, y, a, n) -> a * x + y."""
    out = Buffer(12, "float64", (N,), Role.OUTPUT, HERE)
    return executable(
        ["scaled_sum"],
        13,
        (*_vectors(8, 9), InputScalar(10, "float64"), InputSize(11)),
        (Launch("scaled_sum", N, FREE, (out,), each(N, work_ns)),),
        (OutputBuffer(12, "float64", (N,)),),
    )


def dot(work_ns: int = 1) -> Executable:
    """(x, y, n) -> their scalar product."""
    parts = Buffer(12, "float64", (), Role.PARTIALS)
    return executable(
        ["dot_parts", "add_parts"],
        15,
        (*_vectors(8, 9), InputSize(11)),
        (
            Launch("dot_parts", N, REDUCING, (parts,), each(N, work_ns), chunks_slot=13),
            Launch("add_parts", SlotSize(13), SERIAL, (), Const(64)),
        ),
        (OutputScalar(14, "float64"),),
    )


def gather(work_ns: int = 1) -> Executable:
    """(x, index, size of x, size of index) -> x[index], refusing NaN."""
    out = Buffer(12, "float64", (N,), Role.OUTPUT)
    return executable(
        ["gather"],
        13,
        (InputArray(8, "float64", 1), InputArray(9, "int64", 1), InputSize(10), InputSize(11)),
        (Launch("gather", N, FREE, (out,), each(N, work_ns)),),
        (OutputBuffer(12, "float64", (N,)),),
        (
            Failure(
                BoundsError, "Iteration {index}: index {value}, size {size}.", HERE, "Mind it."
            ),
            Failure(
                ValueRangeError,
                "x is {value} at {index}, not {size}.",
                HERE,
                operands=("float64", "float64"),
            ),
        ),
    )


def linger(work_ns: int = 1_000_000, most: int = 64) -> Executable:
    """(iterations, rounds of about 5 ns in each) -> nothing of interest; polls in each."""
    parts = Buffer(10, "float64", (), Role.PARTIALS)
    return executable(
        ["linger"],
        12,
        (InputSize(11), InputSize(9)),
        (Launch("linger", N, ChunkRule(most), (parts,), each(N, work_ns), at=HERE),),
        (),
    )


def steps(work_ns: int = 1) -> Executable:
    """(x, n, steps) -> x after `x = x / 2 + step` for each step."""
    n = SlotSize(10)
    state = Buffer(12, "float64", (n,), Role.OUTPUT)
    old = Buffer(13, "float64", (n,))
    return executable(
        ["start_state", "step_state"],
        15,
        (InputArray(8, "float64", 1), InputSize(10), InputSize(14)),
        (
            Launch("start_state", n, FREE, (state,), each(n, 1)),
            HostLoop(SlotSize(14), 11, (Launch("step_state", n, FREE, (old,), each(n, work_ns)),)),
        ),
        (OutputBuffer(12, "float64", (n,)),),
    )


def row_medians(work_ns: int = 1) -> Executable:
    """(x, rows, columns) -> the median of each row; each chunk sorts in a scratch row."""
    rows, columns = SlotSize(10), SlotSize(11)
    out = Buffer(12, "float64", (rows,), Role.OUTPUT)
    scratch = Buffer(13, "float64", (columns,), Role.SCRATCH)
    return executable(
        ["row_medians"],
        14,
        (InputArray(8, "float64", 2), InputSize(10), InputSize(11)),
        (Launch("row_medians", rows, FREE, (out, scratch), each(rows, work_ns)),),
        (OutputBuffer(12, "float64", (rows,)),),
    )


def wait_for_others() -> Executable:
    """(chunks) -> how many chunks the first one saw finished: all others."""
    return executable(
        ["wait_for_others"],
        10,
        (InputSize(8),),
        (Launch("wait_for_others", SlotSize(8), ChunkRule(512, 1)),),
        (OutputScalar(9, "int64"),),
    )


def negate(work_ns: int = 1) -> Executable:
    """(x) -> -x, in a single kernel call."""
    return executable(
        ["negate"],
        10,
        (InputScalar(8, "float64"),),
        (Launch("negate", Const(1), SERIAL, (), Const(work_ns)),),
        (OutputScalar(9, "float64"),),
    )


def _vectors(*slots: int) -> tuple[InputArray, ...]:
    return tuple(InputArray(slot, "float64", 1) for slot in slots)
