"""Values of Python locals where ways of control flow meet.

The sides of an `if` and the rounds of a loop leave locals with values that must become one:
numbers and tables meet in a common type, containers leaf by leaf, other values must be the same
object.  What has no common value becomes `Missing`, which raises when it is used: a local that
nobody reads later is no mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from peffects.errors import MergeError
from peffects.ir.builder import zeros
from peffects.ir.syntax import BOOL, I64, Atom, Scalar, Table, Var
from peffects.source import SrcInfo
from peffects.staging.loops.views import ViewTracer
from peffects.staging.rewriting.syntax import RESULT
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.scalars.symbols import (
    Arithmetic,
    ScalarTracer,
    Tracer,
    is_symbolic,
)
from peffects.staging.structures.accumulators import Reference, Told, fit
from peffects.staging.structures.constants import ConstantTracer, is_constant, number_of
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer
from peffects.staging.structures.joins import common_structure, leaves_in
from peffects.staging.structures.results import UNSET
from peffects.staging.structures.tables import TableTracer, value_tracer
from peffects.staging.structures.tabular import Tabular
from peffects.staging.structures.trees import TreeDef, flatten, is_tree, parts_of, unflatten
from peffects.staging.tracing.promotion import join, number_type
from peffects.staging.tracing.trace import OpenBlock, here, staging

__all__ = [
    "UNSET", "Fixed", "LeafType", "Missing", "Tree", "atoms_of", "describe", "distribute",
    "has_sizes_of", "join_leaves", "join_trees", "leaf_type", "made_at", "rebuild", "settle",
    "size_is_outside", "take", "tree_of", "types_of",
]  # fmt: skip


class Missing(Arithmetic):
    """Stands in a local for a value that is not there; every use raises MergeError."""

    is_missing = True

    def __init__(self, name: str, why: str, src: SrcInfo) -> None:
        self.name = "the result" if name == RESULT else f"`{name}`"
        self.why = why
        self.src = src

    def complain(self, at: SrcInfo | None = None) -> NoReturn:
        """Raise the error."""
        raise MergeError(
            f"{self.name} has no value here: {self.why}.",
            at=at or here(),
            notes=(f"because of {self.src}",) if self.src.line and self.src != at else (),
            fix="Give it a value of the same type on every way that leads here.",
        )

    def operand(self) -> Operand:
        """Raises."""
        self.complain()

    def _refuse(self, python: str, fix: str | None = None) -> NoReturn:
        self.complain()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        self.complain()

    def __getitem__(self, key: object) -> NoReturn:
        self.complain()

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises."""
        self.complain()

    def _shown(self) -> str:
        return f"<no value for {self.name}>"


@dataclass(frozen=True, slots=True)
class LeafType:
    """The type of a number or a table that a local holds; a constant is a number in a list."""

    type: Scalar | Table
    weak: bool
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """The structure of a value and what its leaves are: a type, or a fixed object."""

    structure: TreeDef
    leaves: tuple[LeafType | Fixed, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A leaf that is the same object on all ways."""

    value: object


_FIXED_UNSET = Fixed(UNSET)
_CONSTANT = LeafType(I64, False, constant=True)


def leaf_type(value: object) -> LeafType | None:
    """The type of `value`, or None if it is neither a number nor a table.

    It emits nothing and may be asked when the value's block is no longer open.
    """
    if isinstance(value, np.ndarray):
        value = staging().inputs.capture(value)
    match value:
        case ScalarTracer():
            return LeafType(value.type, value.weak)
        case IndexTracer() | IndexSetTracer():
            return LeafType(I64, True)
        case TableTracer():
            return LeafType(value.type, False)
        case ConstantTracer():
            return _CONSTANT
        case Reference():
            weak = getattr(value, "weak", False)
            return None if value.type is None else LeafType(value.type, weak)
        case _:
            known = number_type(value)
            return None if known is None else LeafType(*known)


def _fixed(value: object) -> Fixed:
    return _FIXED_UNSET if value is UNSET else Fixed(value)


def _same_fixed(left: object, right: object) -> bool:
    """Whether two leaves are one object, or equal constants of one type."""
    if left is right:
        return True
    if is_symbolic(left) or is_symbolic(right) or type(left) is not type(right):
        return False
    if isinstance(left, int | float | str | bytes | bool | np.generic):
        return repr(left) == repr(right)
    return False


def join_leaves(left: LeafType, right: LeafType) -> LeafType | None:
    """The type in which two values meet, or None if there is none."""
    a, b = left.type, right.type
    if left.constant != right.constant:
        return None
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        scalar, weak = join(a, left.weak, b, right.weak)
        return LeafType(scalar, weak) if (a == BOOL) == (b == BOOL) else None
    if isinstance(a, Table) and isinstance(b, Table) and len(a.dims) == len(b.dims):
        elem, _ = join(a.elem, False, b.elem, False)
        return LeafType(Table(a.dims, elem), False)
    return None


def tree_of(value: object) -> Tree | str:
    """The types of what a local holds, for a loop to carry, or why there are none."""
    if isinstance(value, Missing):
        return value.why
    leaves, structure = flatten(value)
    types: list[LeafType | Fixed] = []
    for leaf in leaves:
        known = None if isinstance(leaf, Reference) else leaf_type(leaf)
        types.append(known if known is not None else _fixed(leaf))
    return Tree(structure, tuple(types))


def join_trees(left: object, right: object) -> Tree | str:
    """What two values have in common, or why they have nothing in common."""
    for value in (left, right):
        if isinstance(value, Missing):
            return value.why
    tree = common_structure(left, right)
    if tree is None:
        return f"it is {describe(left)} on one way and {describe(right)} on the other"
    leaves: list[LeafType | Fixed] = []
    for x, y in zip(leaves_in(left, tree), leaves_in(right, tree), strict=True):
        leaf = _join_leaf(x, y)
        if leaf is None:
            return f"it is {describe(x)} on one way and {describe(y)} on the other"
        leaves.append(leaf)
    return Tree(tree, tuple(leaves))


def _join_leaf(x: object, y: object) -> LeafType | Fixed | None:
    if x is UNSET or y is UNSET:
        known = y if x is UNSET else x
        return leaf_type(known) or _fixed(known)
    if _same_fixed(x, y):
        return Fixed(x)
    if all(is_constant(v) or isinstance(v, ConstantTracer) for v in (x, y)):
        return _CONSTANT
    first, second = leaf_type(x), leaf_type(y)
    if first is None or second is None:
        return None
    return join_leaves(first, second)


def describe(value: object) -> str:
    """A value in a message."""
    if value is None:
        return "None"
    if isinstance(value, Missing):
        return "not assigned"
    known = leaf_type(value) if isinstance(value, Tracer | np.ndarray) else None
    if known is not None:
        t = known.type
        if not isinstance(t, Table):
            return f"a number ({t})"
        return f"a table with {len(t.dims)} {'axis' if len(t.dims) == 1 else 'axes'} of {t.elem}"
    if isinstance(value, Tabular):
        return value.what()
    kind = type(value).__name__
    if is_tree(value) and any(map(is_symbolic, flatten(value)[0])):
        return f"the {kind} ({', '.join(describe(part) for _, part in parts_of(value))})"
    return f"the {kind} {value!r:.40}"


def settle(value: object, scope: OpenBlock) -> object:
    """`value` with the accumulators and states that `scope` made read: they end with it."""
    leaves, tree = flatten(value)
    done = [
        leaf.read() if isinstance(leaf, Reference) and leaf.scope is scope else leaf
        for leaf in leaves
    ]
    changed = any(new is not old for new, old in zip(done, leaves, strict=True))
    return unflatten(tree, done) if changed else value


def take(names: Sequence[tuple[str, int]], frame: dict[str, object]) -> dict[str, object]:
    """The locals of `names` that have values, from a frame's locals."""
    return {name: frame[name] for name, _ in names if name in frame}


def atoms_of(value: object, tree: Tree, told: Told | None = None) -> list[Atom]:
    """The atoms of the leaves of `value` that have types, converted to them.

    `told` says of an axis how it is told that a table has another size there.
    """
    pairs = zip(leaves_in(value, tree.structure), tree.leaves, strict=True)
    return [_fitting(leaf, t, told) for leaf, t in pairs if isinstance(t, LeafType)]


def has_sizes_of(value: object, tree: Tree) -> bool:
    """Whether the tables in `value` are known to have the sizes of those of `tree`."""
    same = staging().sizes.same
    for leaf, wanted in zip(leaves_in(value, tree.structure), tree.leaves, strict=True):
        own = leaf_type(leaf)
        if own is None or not isinstance(wanted, LeafType):
            continue
        if isinstance(own.type, Table) and isinstance(wanted.type, Table):
            pairs = zip(own.type.dims, wanted.type.dims, strict=True)
            if not all(same(mine.size, other.size) for mine, other in pairs):
                return False
    return True


def _fitting(leaf: object, t: LeafType, told: Told | None) -> Atom:
    if leaf is UNSET:
        return zeros(staging().builder, t.type)
    if t.constant:
        return number_of(leaf)
    with staging().located(made_at(leaf) or staging().place):
        return fit(leaf, t.type, "the value that it meets", told)


def made_at(value: object) -> SrcInfo | None:
    """The user's line that made a table in a block that is still open."""
    if isinstance(value, ViewTracer):
        return value.src
    if isinstance(value, TableTracer):
        for scope in staging().scope.up():
            for binding in reversed(scope.builder.bindings):
                if value.held in binding.vars:
                    return binding.src
    return None


def rebuild(tree: Tree, atoms: Sequence[Atom], name: str) -> object:
    """The value of `tree` with tracers of `atoms` as its typed leaves."""
    supply = iter(atoms)
    leaves: list[object] = []
    for leaf in tree.leaves:
        if isinstance(leaf, Fixed):
            leaves.append(leaf.value)
        elif leaf.constant:
            leaves.append(ConstantTracer(next(supply), staging().scope))
        else:
            leaves.append(value_tracer(next(supply), name, leaf.weak))
    return unflatten(tree.structure, leaves)


def types_of(tree: Tree) -> list[Scalar | Table]:
    """The types of the leaves that have types."""
    return [leaf.type for leaf in tree.leaves if isinstance(leaf, LeafType)]


def size_is_outside(t: Scalar | Table, scope: OpenBlock) -> bool:
    """Whether the sizes of `t` are known around `scope`."""
    trace, outer = staging(), scope.parent or scope
    dims = t.dims if isinstance(t, Table) else ()
    sizes = [trace.sizes.representative(dim.size) for dim in dims]
    return all(not isinstance(size, Var) or trace.is_defined_around(size, outer) for size in sizes)


def hint(name: str) -> str:
    """The name of a local as a name in the IR."""
    return "result" if name == RESULT else name


def distribute(trees: Sequence[Tree], atoms: Sequence[Atom], names: Sequence[str]) -> list[object]:
    """The values of `trees` from the atoms of all their typed leaves."""
    values, place = [], 0
    for tree, name in zip(trees, names, strict=True):
        count = len(types_of(tree))
        values.append(rebuild(tree, atoms[place : place + count], name))
        place += count
    return values
