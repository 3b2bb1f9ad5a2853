"""Sequential loops from functions: `fold`, `scan` and the running reductions.

Each is a fold of the IR, staged like a `range` loop with one carried local.  What `scan` gives in a
round is an output of the fold, so it becomes a table that is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from peffects.errors import KernelTypeError, MergeError
from peffects.ir import primitives as prims
from peffects.ir.builder import index_var
from peffects.ir.evaluate import identity_of
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import Atom, Block, For, Lit, Monoid, Scalar, Table
from peffects.staging.loops.iteration import FoldLoop
from peffects.staging.loops.locals import Missing
from peffects.staging.loops.ops import loop_operation, table
from peffects.staging.loops.parallel_loops import (
    accumulated_type,
    bind_index,
    check_function,
    check_known,
    check_rows,
    open_sets,
    parameter_names,
    result_atom,
)
from peffects.staging.loops.ranges import SequentialLoop, sequential
from peffects.staging.scalars.symbols import binary, convert
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.domains import as_sets
from peffects.staging.structures.indices import IndexSetTracer
from peffects.staging.structures.records import numbers_among, with_numbers
from peffects.staging.structures.tables import value_tracer
from peffects.staging.structures.trees import (
    LEAF,
    TreeDef,
    flatten,
    map_leaves,
    tabulated,
    unflatten,
)
from peffects.staging.tracing.trace import Kind, Trace, here, staging

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "fold", "pair_of", "reduce", "scan"]

Function = Callable[..., object]

# --- the rounds ----------------------------------------------------------------------------------


class _Rounds(FoldLoop):
    """The rounds of a fold that carries one value; `given` is what a round gives besides.

    The loop is ours: what only adds to the carry is held as sums are.
    """

    running = True

    def __init__(
        self, trace: Trace, operation: str, loop: SequentialLoop, hint: str, init: object
    ) -> None:
        super().__init__(trace, loop, (("carry", 0),), ((hint, 0),), (), {"carry": init}, None)
        self.operation = operation
        self.given: object = ()
        self.output_tree: TreeDef = LEAF
        self.output_leaves: list[object] = []

    def output_atoms(self) -> Sequence[Atom]:
        """The atoms of what the last round gave."""
        leaves, self.output_tree = flatten(self.given)
        role = f"what the function given to `{self.operation}` returns"
        self.output_leaves = leaves
        atoms = [result_atom(leaf, role) for leaf in numbers_among(leaves)]
        check_rows(atoms, self.operation)
        return atoms

    def run(self, step: Callable[[object, object], tuple[object, object]]) -> tuple[object, object]:
        """The last carry, and the tables of what the rounds give."""
        for item in self:
            (carry,) = self.enter()
            carry, self.given = step(carry, item)
            self.leave({"carry": carry})
        last = self.value_after("carry")
        if isinstance(last, Missing):
            raise MergeError(
                f"the function given to `{self.operation}` gets one kind of carry and gives "
                f"another: {last.why}.",
                at=self.src,
                fix="Return a carry of the structure and types of the initial one.",
            )
        tables = with_numbers(self.output_leaves, map(value_tracer, self.tables))
        return last, tabulated(self.output_tree, 1, tables)


def _over_sets(
    operation: str,
    step: Callable[..., tuple[object, object]],
    init: object,
    sets: Sequence[tuple[IndexSetTracer, str]],
    reverse: bool,
) -> tuple[object, object]:
    """`step` over all indices of `sets`, the last one fastest."""
    (index_set, name), *inner = sets
    check_flag(operation, reverse)
    loop = SequentialLoop(index_set, lambda index: index, reverse, exact=True)

    def nested(carry: object, index: object) -> tuple[object, object]:
        def with_index(carry: object, *indices: object) -> tuple[object, object]:
            return step(carry, index, *indices)

        return _over_sets(operation, with_index, carry, inner, reverse)

    rounds = _Rounds(staging(), operation, loop, name, init)
    found = rounds.run(nested if inner else step)
    check_known(operation, index_set, name)
    return found


def _named_sets(
    operation: str, function: object, over: object, first: int
) -> list[tuple[IndexSetTracer, str]]:
    """The index sets of the parameters of `function` from number `first` on, and their names."""
    if not callable(function):
        raise KernelTypeError(
            f"`{operation}` takes a function, not {function!r:.60}.",
            at=here(),
            fix=f"`pe.{operation}(lambda carry, i: ...)`."
            if first
            else f"`pe.{operation}(lambda i: ...)`, or a table.",
        )
    names = parameter_names(function)[first:]
    sets = open_sets(names) if over is None else as_sets(over)
    if not names or len(names) != len(sets):
        raise KernelTypeError(
            f"the function given to `{operation}` takes {len(names)} indices, and there are "
            f"{len(sets)} index sets.",
            at=here(),
            fix="Give one index set for each index: `over=n`, `over=(n, m)`.",
        )
    return list(zip(sets, names, strict=True))


def check_flag(operation: str, reverse: object) -> None:
    """Raise KernelTypeError unless the direction of a loop is known while staging."""
    if not isinstance(reverse, bool):
        raise KernelTypeError(
            f"`reverse` of `{operation}` is {reverse!r:.60}, and True or False is needed: it "
            "chooses the program.",
            at=here(),
            fix="Write the two loops on the two sides of an `if`.",
        )


# --- fold and scan -------------------------------------------------------------------------------


@loop_operation
def fold(function: object, init: Any, *, over: object = None, reverse: bool = False) -> Any:
    """The last carry of `carry = function(carry, i)` for all indices i, one after the other.

    The carry starts as `init`, a number, a table, or a tree of them, and keeps its structure.  The
    index set is that of the axes that i is used on, or `over`; of several indices the last runs
    fastest.  `reverse` goes from the last index to the first.  Raises MergeError if the function
    gives back another kind of carry.
    """
    sets = _named_sets("fold", function, over, 1)
    call = staging().inputs.resolve(function)  # type: ignore[arg-type]  # tested: it is callable
    carry, _ = _over_sets("fold", lambda c, *i: (call(c, *i), ()), init, sets, reverse)
    return carry


@loop_operation
def scan(
    function: object, init: Any, xs: Any = None, *, over: object = None, reverse: bool = False
) -> Any:
    """The last carry, and the table of all `y`, of `carry, y = function(carry, x)`.

    x is a row of `xs`, a table or a tree of tables whose first axes agree, or a `range`; without
    `xs` it is an index, as in `fold`.  With `reverse` the rows are taken from the last one to the
    first; each y stands at the place of its x.
    """
    if xs is None:
        sets = _named_sets("scan", function, over, 1)
        call = staging().inputs.resolve(function)  # type: ignore[arg-type]  # it is callable
        return _over_sets("scan", lambda c, *i: pair_of(call(c, *i)), init, sets, reverse)
    if over is not None:
        raise KernelTypeError(
            "`scan` is given both `xs` and `over`.", at=here(), fix="Leave one of them out."
        )
    _named_sets("scan", function, 0, 1)  # one parameter beside the carry
    call = staging().inputs.resolve(function)  # type: ignore[arg-type]  # tested: it is callable
    rows = sequential(xs) or _rows(xs)
    check_flag("scan", reverse)
    rounds = _Rounds(staging(), "scan", rows.reversed() if reverse else rows, "i", init)
    return rounds.run(lambda carry, x: pair_of(call(carry, x)))


@loop_operation
def reduce(function: object, combine: object, empty: Any, *, over: object = None) -> Any:
    """`combine` of all `function(i)` in index order: `combine(...combine(empty, f(0))..., f(n))`.

    Values are numbers, rows, or trees of them, of one structure, which `empty` has too; it is the
    result if there are no indices.  `function` may be a table.  The loop is sequential; `sum`,
    `max` and their kin are parallel.
    """
    if is_table(function):
        whole = as_table(function)
        sets = [
            (index_set, "i") for index_set in (whole.index_sets if over is None else as_sets(over))
        ]

        def call(*i: object) -> object:
            return whole[i]

    else:
        sets = _named_sets("reduce", function, over, 0)
        call = staging().inputs.resolve(function)  # type: ignore[arg-type]  # it is callable
    check_function("reduce", combine)
    join = staging().inputs.resolve(combine)  # type: ignore[arg-type]  # tested: it is callable
    carry, _ = _over_sets("reduce", lambda c, *i: (join(c, call(*i)), ()), empty, sets, False)
    return carry


def pair_of(result: object) -> tuple[object, object]:
    """What the function given to `scan` returns: the carry and an output."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise KernelTypeError(
            f"the function given to `scan` returns {result!r:.60}, and a pair is needed.",
            at=here(),
            fix="Return `(carry, output)`.",
        )
    return result


def _rows(xs: object) -> SequentialLoop:
    """The rows of a tree of tables."""
    leaves, _ = flatten(xs)
    if not leaves or not all(map(is_table, leaves)):
        raise KernelTypeError(
            f"`scan` runs over {xs!r:.60}, which has no rows.",
            at=here(),
            fix="Give a table, a tuple of tables, or an index set: `over=n`.",
        )

    def row(index: object) -> object:
        return map_leaves(lambda leaf: as_table(leaf)[index], xs)

    return SequentialLoop(as_table(leaves[0]).index_set, row, exact=True)


# --- running reductions --------------------------------------------------------------------------

_OPERATIONS: dict[Monoid, Primitive] = {
    Monoid.ADD: prims.ADD, Monoid.MUL: prims.MUL, Monoid.MIN: prims.MIN, Monoid.MAX: prims.MAX,
}  # fmt: skip


def _running(monoid: Monoid, function: object, over: object, reverse: bool) -> object:
    """The table of the combinations of `function(0)` to `function(i)`, for all i."""
    operation = _NAMES[monoid]
    if is_table(function):
        rows = as_table(function)
        sets = [(rows.index_set if over is None else as_sets(over)[0], "i")]
        call: Function = rows.__getitem__
    else:
        sets = _named_sets(operation, function, over, 0)
        call = staging().inputs.resolve(function)  # type: ignore[arg-type]  # it is callable
    if len(sets) != 1:
        raise KernelTypeError(
            f"`{operation}` takes a function of one index.",
            at=here(),
            fix=f"Call it for each row: `pe.table(lambda i: pe.{operation}(lambda j: a[i, j]))`.",
        )

    def step(carry: object, index: object) -> tuple[object, object]:
        held, tree = flatten(carry)
        values, _ = flatten(call(index))
        pairs = zip(held, values, strict=True)
        result = unflatten(tree, [_combined(monoid, x, y) for x, y in pairs])
        return result, result

    _, tables = _over_sets(operation, step, _start(monoid, call, sets[0][0]), sets, reverse)
    return tables


_NAMES = {
    Monoid.ADD: "cumsum", Monoid.MUL: "cumprod", Monoid.MIN: "cummin", Monoid.MAX: "cummax",
}  # fmt: skip


def _start(monoid: Monoid, call: Function, index_set: IndexSetTracer) -> object:
    """The identity of `monoid` for values of the types that `call` gives.

    The types are found by staging the function once and dropping the block.
    """
    trace = staging()
    with trace.inside(Kind.SEQUENTIAL) as scope:
        _, index = bind_index(index_set, "i", scope)
        leaves, tree = flatten(call(index))
        role = f"what the function given to `{_NAMES[monoid]}` returns"
        types = [result_atom(leaf, role).type for leaf in leaves]
    return unflatten(tree, [_identity(monoid, t) for t in types])  # type: ignore[arg-type]


def _identity(monoid: Monoid, t: Scalar | Table) -> object:
    elem = accumulated_type(t.elem if isinstance(t, Table) else t, monoid)
    lit = Lit(identity_of(monoid, elem), elem)
    if isinstance(t, Scalar):
        return value_tracer(lit)
    binders = tuple(index_var("i", dim.size, dim.label) for dim in t.dims)
    return value_tracer(staging().emit(For(binders, Block((), (lit,))), ("start",))[0])


def _combined(monoid: Monoid, carry: Any, value: object) -> object:
    """A carried number or row, combined with the next."""
    if is_table(carry):
        row = as_table(value)
        sets = as_table(carry).index_sets
        return table(lambda i: binary(_OPERATIONS[monoid], carry[i], row[i]), over=sets)
    return binary(_OPERATIONS[monoid], carry, convert(value, carry.type))


@loop_operation
def cumsum(function: object, *, over: object = None, reverse: bool = False) -> Any:
    """The table of the sums of `function(0)` to `function(i)`; of a table: along its first axis.

    `reverse` sums from the last index down to i.  Small integers are widened, as in `sum`.
    """
    return _running(Monoid.ADD, function, over, reverse)


@loop_operation
def cumprod(function: object, *, over: object = None, reverse: bool = False) -> Any:
    """The table of the products of `function(0)` to `function(i)`; see `cumsum`."""
    return _running(Monoid.MUL, function, over, reverse)


@loop_operation
def cummax(function: object, *, over: object = None, reverse: bool = False) -> Any:
    """The table of the largest of `function(0)` to `function(i)`; see `cumsum`."""
    return _running(Monoid.MAX, function, over, reverse)


@loop_operation
def cummin(function: object, *, over: object = None, reverse: bool = False) -> Any:
    """The table of the smallest of `function(0)` to `function(i)`; see `cumsum`."""
    return _running(Monoid.MIN, function, over, reverse)
