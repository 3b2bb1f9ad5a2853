"""When the cotangent of a table that is overwritten is handed on, told on blocks made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.differentiate.overwriting import has_update, is_threaded, updates
from peffects.ir.builder import index_var, int_lit
from peffects.ir.syntax import (
    BOOL,
    F64,
    Atom,
    Binding,
    Block,
    Bounds,
    Cond,
    Expr,
    FinSet,
    Fold,
    Idx,
    Index,
    Table,
    Update,
    Var,
)

TYPE = Table((FinSet(int_lit(3)),), F64)
S, OLD, V, P = Var("s", TYPE), Var("old", TYPE), Var("v", F64), Var("p", BOOL)
I = index_var("i", int_lit(3))  # noqa: E741


def read(table: Var = S) -> Binding:
    return Binding((Var("x", F64),), Index(table, (I,), Bounds.PROVED))


def written(table: Var = S) -> Binding:
    return Binding((Var("t", TYPE),), Update(table, (I,), V, Bounds.PROVED))


def block(*bindings: Binding, result: Atom | None = None) -> Block:
    return Block(bindings, bindings[-1].vars if result is None else (result,))


def cond(then: Block, orelse: Block) -> Binding:
    return Binding((Var("c", TYPE),), Cond(P, then, orelse))


def threaded(*bindings: Binding, results: tuple[Atom, ...] = ()) -> bool:
    return is_threaded(S, bindings, results, lambda found: found)


def test_reads_and_then_one_that_hands_it_on() -> None:
    assert threaded(read(), read(), written())
    assert threaded(read(), results=(S,))
    assert not threaded(read(), read())
    assert not threaded(written(), read())
    assert not threaded(written(), written())
    assert not threaded(written(), results=(S,))
    assert not threaded(results=(S, S))


def test_sides_of_a_branch() -> None:
    writes, reads = block(written()), block(read(), result=V)
    assert threaded(cond(writes, block(written())))
    assert threaded(cond(writes, reads))
    assert not threaded(cond(reads, reads))
    assert not threaded(cond(writes, reads), read())


def fold(start: Var, body: Block) -> Expr:
    step = Var("k", Idx(FinSet(int_lit(3))))
    return Fold(step, False, (OLD,), (start,), body)


def test_what_is_updated_in_blocks_and_loops() -> None:
    assert updates(block(written()), S)
    assert not updates(block(written(OLD)), S)
    assert not updates(block(read()), S)
    assert updates(block(cond(block(written()), block(read()))), S)
    in_loop = Binding((Var("l", TYPE),), fold(S, block(written(OLD))))
    assert updates(block(in_loop), S)
    only_read = Binding((Var("l", TYPE),), fold(S, block(read(OLD), result=OLD)))
    assert not updates(block(only_read), S)
    assert has_update(in_loop.expr)
    assert not has_update(only_read.expr)


def grows_later(x: Any) -> Any:
    """The second carry has a derivative from the second round on."""
    a, b, c = x[0], 0.0, 0.0
    for k in range(len(x)):
        a, b, c = 1.5 * a, b + x[k] * x[k], c + b
    return a + b * c


def test_carries_of_a_loop_that_grow_active_keep_those_that_were() -> None:
    pe.check_grads(grows_later, (np.array([0.6, 1.5, 0.28]),))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_state_that_is_written_and_read_in_turn(count: int) -> None:
    def kernel(x: Any) -> Any:
        s = pe.state(x)
        for k in range(len(x)):
            s[k] = s[k] * s[0]
            s[0] = s[k] + s[0]
        return pe.sum(lambda i: s[i] * (i + 1.0), over=x)

    pe.check_grads(kernel, (np.linspace(0.5, 1.5, count),))
