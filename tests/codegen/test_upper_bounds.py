"""The bounds by which lowering allocates: never below the value, whatever the numbers are."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from peffects.codegen.lower.facts import Uses, is_natural, upper_bound
from peffects.codegen.program.loop_programs import Const, SlotSize
from peffects.codegen.program.sizes import size_function
from peffects.ir import primitives as p
from peffects.ir.builder import int_lit
from peffects.ir.syntax import I64, Lit, Prim, Var

NUMBERS = [Var(f"x{k}", I64) for k in range(3)]
SIZES = [Var(f"n{k}", I64) for k in range(2)]
"""What is known before the stage: numbers of the user's, and sizes, which are 0 or more."""
LEAVES = [*NUMBERS, *SIZES]
OPERATIONS: dict[p.Primitive, Callable[[int, int], int]] = {
    p.ADD: lambda a, b: a + b,
    p.SUB: lambda a, b: a - b,
    p.MUL: lambda a, b: a * b,
    p.MIN: min,
    p.MAX: max,
    p.FLOORDIV: lambda a, b: a // b if b else 0,
    p.MOD: lambda a, b: a % b if b else 0,
}

Tree = Any
trees = st.recursive(
    st.one_of(st.sampled_from(LEAVES), st.integers(-3, 9).map(int_lit)),
    lambda inner: st.tuples(st.sampled_from(list(OPERATIONS)), inner, inner),
    max_leaves=6,
)


def defined(tree: Tree, facts: Uses) -> Var | Lit:
    """The variable that is set to `tree`."""
    if isinstance(tree, Var | Lit):
        return tree
    op, *parts = tree
    var = Var("t", I64)
    facts.definitions[var] = Prim(op, tuple(defined(part, facts) for part in parts))
    return var


def value_of(tree: Tree, words: list[int]) -> int:
    if isinstance(tree, Lit):
        return int(tree.value)
    if isinstance(tree, Var):
        return words[LEAVES.index(tree)]
    op, left, right = tree
    return OPERATIONS[op](value_of(left, words), value_of(right, words))


def leaf(atom: Any) -> Any:
    if isinstance(atom, Lit):
        return Const(int(atom.value))
    return SlotSize(LEAVES.index(atom)) if atom in LEAVES else None


@given(
    trees,
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    st.lists(st.integers(0, 9), min_size=2, max_size=2),
)
def test_no_value_is_above_its_bound(tree: Tree, numbers: list[int], sizes: list[int]) -> None:
    words, facts = numbers + sizes, Uses(sizes=set(SIZES))
    atom, value = defined(tree, facts), value_of(tree, words)
    if is_natural(atom, facts):
        assert value >= 0
    bound = upper_bound(atom, facts, leaf)
    if bound is not None:
        assert size_function(bound)(memoryview(array("q", words))) >= max(value, 0)


def test_what_has_a_bound() -> None:
    x, n, m = NUMBERS[0], *SIZES
    has = [(p.ADD, x, n), (p.SUB, x, n), (p.MUL, n, m), (p.MIN, x, n), (p.MAX, x, n),
           (p.FLOORDIV, x, n), (p.MOD, x, n)]  # fmt: skip
    for tree in has:
        facts = Uses(sizes=set(SIZES))
        assert upper_bound(defined(tree, facts), facts, leaf) is not None, tree
    for tree in [(p.SUB, n, x), (p.MUL, x, n), (p.FLOORDIV, n, x), (p.MOD, n, x)]:
        facts = Uses(sizes=set(SIZES))
        assert upper_bound(defined(tree, facts), facts, leaf) is None, tree
    # of two bounds the one that is known when the program is made
    facts = Uses(sizes=set(SIZES))
    assert upper_bound(defined((p.MIN, n, int_lit(7)), facts), facts, leaf) == Const(7)
