"""Accumulations are put into regions, whatever stands between them."""

from __future__ import annotations

from peffects.ir.builder import Builder, index_var, int_lit, lit_like
from peffects.ir.primitives import ADD, MUL
from peffects.ir.print import print_block
from peffects.ir.syntax import F64, Atom, Binding, Block, Fold, Monoid, Ref, Var, WithAcc
from peffects.source import UNKNOWN
from peffects.staging.tracing.regions import enclose, export

ONE = lit_like(1.0, F64)


def same(atom: Atom) -> Atom:
    return atom


def fold_into(b: Builder, ref: Var, start: Atom) -> Var:
    """A loop that adds to `ref` and has a result."""
    i, carry = index_var("i", int_lit(3)), Var("s", F64)
    inner = b.nested()
    inner.accumulate(ref, (), carry)
    total = inner.prim(ADD, carry, ONE)
    return b.emit(Fold(i, False, (carry,), (start,), inner.block(total)), ("s",))[0]


def kinds(bindings: list[Binding]) -> list[str]:
    return [type(binding.expr).__name__ for binding in bindings]


def test_what_does_not_depend_on_writes_goes_before_the_region() -> None:
    b, ref, final = Builder(), Var("h", Ref(Monoid.ADD, F64)), Var("h", F64)
    first = b.prim(ADD, ONE, ONE)
    b.accumulate(ref, (), first)
    b.prim(MUL, first, first)
    b.accumulate(ref, (), ONE)
    found = enclose(b.bindings, ref, final, UNKNOWN, same)
    assert kinds(found) == ["Prim", "Prim", "WithAcc"]
    assert found[-1].vars == (final,)


def test_what_writes_need_is_inside_and_the_rest_after() -> None:
    b, ref, final = Builder(), Var("h", Ref(Monoid.ADD, F64)), Var("h", F64)
    total = fold_into(b, ref, ONE)
    needed = b.prim(MUL, total, total)
    other = b.prim(ADD, total, ONE)
    b.accumulate(ref, (), needed)
    found = enclose(b.bindings, ref, final, UNKNOWN, same)
    assert kinds(found) == ["WithAcc", "Prim"]
    done = export(found, (other, needed, final), same)
    text = print_block(Block(done, (other, needed, final)))
    assert text.splitlines()[0].startswith("s, t, h1 = with_acc h")
    assert text.splitlines()[-1] == "-> t3, t, h1"


def test_regions_that_hold_only_a_region_are_one() -> None:
    b = Builder()
    refs = [Var(name, Ref(Monoid.ADD, F64)) for name in "gh"]
    finals = [Var(name, F64) for name in "gh"]
    i = index_var("i", int_lit(3))
    inner = b.nested()
    for ref in refs:
        inner.accumulate(ref, (), ONE)
    b.loop((i,), inner.block())
    found = b.bindings
    for ref, final in zip(refs, finals, strict=True):
        found = enclose(found, ref, final, UNKNOWN, same)
    (binding,) = found
    assert isinstance(binding.expr, WithAcc) and binding.expr.refs == tuple(refs)
    assert binding.vars == tuple(finals)
