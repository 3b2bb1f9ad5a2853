"""`stage`: a user's function and its argument types become a `Program`.

The function is called once, rewritten, with tracers in place of the numbers and arrays among its
arguments.  `Staged` holds the program and all that a launcher needs around it: how results are put
together, what is read again at each call (`captures`), and what must stay the same (`guards`).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TypeAlias, cast

from peffects.errors import ControlFlowError, KernelEffectError, KernelTypeError, PeffectsError
from peffects.ir.rename import Renamer
from peffects.ir.syntax import Atom, Program
from peffects.ir.traverse import free_vars
from peffects.machine.checking.locations import place_of_error
from peffects.machine.handling.operations import is_computation
from peffects.parallel.index_sets.index_set import understand_symbols
from peffects.parallel.index_sets.packed import Packed
from peffects.source import UNKNOWN, SrcInfo, of_code
from peffects.staging.captures.inputs import KernelInputs
from peffects.staging.captures.readers import Reader, reader
from peffects.staging.captures.reads import (
    Capture,
    Path,
    Root,
    SameObject,
    Static,
    Unchanged,
    token_of,
)
from peffects.staging.effects.running import EFFECT_CALLS
from peffects.staging.hooks.callees import REPLACED
from peffects.staging.hooks.hooks import resolve
from peffects.staging.hooks.symbolic_sets import StagedSymbols
from peffects.staging.loops.locals import Missing, leaf_type, settle
from peffects.staging.numpy_surface.operators import NumpyArrays
from peffects.staging.scalars.for_user import for_user, has_symbols
from peffects.staging.scalars.held_symbols import check_holds_none
from peffects.staging.scalars.symbols import is_symbolic, lift
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.constants import ConstantColumn, ConstantTracer, chosen, number_of
from peffects.staging.structures.packing import as_packed, declare
from peffects.staging.structures.trees import (
    TreeDef,
    flatten,
    is_tree,
    map_leaves,
    parts_of,
    unflatten,
)
from peffects.staging.tracing.argument_types import ArgumentType, as_array, type_of
from peffects.staging.tracing.recursion import no_overflow
from peffects.staging.tracing.trace import Trace, staging

understand_symbols(StagedSymbols())

__all__ = ["Result", "Signature", "Staged", "signature", "stage"]


REPLACED.update(EFFECT_CALLS)

Call: TypeAlias = tuple[tuple[object, ...], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Result:
    """A leaf of the results: result number `place` of the program, or the constant it counts."""

    place: int
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """What a program depends on of its arguments: their structure and the types of their leaves.

    A leaf that is neither a number nor an array stands in `leaves` as None; guards watch over it.
    """

    tree: TreeDef
    leaves: tuple[ArgumentType | None, ...]


def signature(args: Sequence[object], kwargs: Mapping[str, object]) -> Signature:
    """The signature of a call.  Booleans, too, are numbers of the program."""
    leaves, tree = flatten((tuple(args), dict(kwargs)))
    return Signature(tree, tuple(type_of(leaf) for leaf in leaves))


@dataclass(frozen=True, slots=True)
class Staged:
    """A program and how to call it."""

    function: Callable[..., object]
    signature: Signature
    program: Program
    out_tree: TreeDef
    out_leaves: tuple[object, ...]
    captures: tuple[Capture, ...]
    guards: tuple[Unchanged | SameObject, ...]
    constants: tuple[object, ...] = ()

    def arguments(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> list[object] | None:
        """The program's arguments for this call; None if the program does not fit it.

        It does not fit when the types of arguments or of what is captured are others, or when a
        guard does not hold.
        """
        leaves, tree = flatten((tuple(args), dict(kwargs)))
        if Signature(tree, tuple(type_of(leaf) for leaf in leaves)) != self.signature:
            return None
        if not all(guard.holds(self.function, leaves) for guard in self.guards):
            return None
        values = [leaf for leaf, kind in zip(leaves, self.signature.leaves, strict=True) if kind]
        for capture in self.captures:
            value = capture.path.find(self.function, leaves)
            if type_of(value) != capture.kind:
                return None
            values.append(value)
        return [array if (array := as_array(v)) is not None else v for v in values]

    def reader(self) -> Reader:
        """The quick form of `arguments`, for calls with the signature of this one."""
        return reader(self.function, self.signature.leaves, self.guards, self.captures)

    def results(self, outputs: Sequence[object]) -> object:
        """The value of the call, from the results of the program."""
        leaves = [
            leaf if not isinstance(leaf, Result)
            else chosen(self.constants, outputs[leaf.place]) if leaf.constant
            else outputs[leaf.place]
            for leaf in self.out_leaves
        ]  # fmt: skip
        return unflatten(self.out_tree, leaves)


def stage(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
) -> Staged:
    """Stage `function` for arguments like these, or of these types (`ArrayType`, `ScalarType`)."""
    kwargs = kwargs or {}
    plain = getattr(function, "__pe_function__", function)
    call_signature = signature(args, kwargs)
    inputs = KernelInputs(resolve, NumpyArrays())
    src = _place_of(plain)
    trace = Trace(getattr(plain, "__name__", "kernel"), inputs, src)
    inputs.trace = trace
    with trace.activate(), no_overflow():
        inputs.know(_known_function(plain), Path(Root()))
        if isinstance(plain, FunctionType):  # its code and defaults can be replaced
            inputs.guards.append(Unchanged(Path(Root()), token_of(plain)))
        symbols = _symbols(plain, args, kwargs, call_signature, inputs)
        new_args, new_kwargs = cast(Call, unflatten(call_signature.tree, symbols))
        _declare_packed((new_args, new_kwargs))
        with _told_without_symbols():
            value = for_user(resolve(plain), *new_args, **new_kwargs)
        value = settle(map_leaves(as_packed, value), trace.root)
        atoms, out_tree, out_leaves = _outputs(value)
        program = _program(trace, inputs, atoms, src)
    program, captures = _without_unused(program, inputs.captures)
    return Staged(
        plain,
        call_signature,
        program,
        out_tree,
        out_leaves,
        captures,
        tuple(inputs.guards),
        tuple(trace.constants),
    )


@contextlib.contextmanager
def _told_without_symbols() -> Iterator[None]:
    """An exception of the user's has no symbol in it: its text could not be printed."""
    try:
        yield
    except PeffectsError:
        raise
    except Exception as error:
        if not has_symbols(error.args):
            raise
        raise ControlFlowError(
            f"`{type(error).__name__}` is raised with a value of the kernel in it, which is known "
            "only when it runs.",
            at=place_of_error(error),
            fix="Raise it with a constant text; or write `pe.check(condition, f'{x} is wrong')`.",
        ) from None


def _place_of(function: object) -> SrcInfo:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return of_code(code) if code is not None else UNKNOWN


def _known_function(function: object) -> object:
    """The function object whose cells and globals a path from the root goes through."""
    return getattr(function, "__func__", function)


def _symbols(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    call: Signature,
    inputs: KernelInputs,
) -> list[object]:
    """A parameter for each number and array among the arguments; other leaves as they are."""
    leaves, _ = flatten((tuple(args), dict(kwargs)))
    names = _leaf_names(function, args, kwargs)
    symbols: list[object] = []
    for place, (leaf, kind, name) in enumerate(zip(leaves, call.leaves, names, strict=True)):
        if kind is not None:
            symbols.append(inputs.parameter(kind, name))
        else:
            symbols.append(inputs.reach(leaf, Path(Static(place))))
    return symbols


def _declare_packed(value: object) -> None:
    """Test when the kernel runs that the parts of packed arguments fit."""
    if isinstance(value, Packed):
        declare(value, value.packed.name)
    elif is_tree(value):
        for _, part in parts_of(value):
            _declare_packed(part)


def _leaf_names(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> list[str]:
    """The name of the parameter that each leaf of the arguments belongs to."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for place, arg in enumerate(args):
        name = parameters[place] if place < len(parameters) else f"arg{place}"
        names += [name] * len(flatten(arg)[0])
    for name, arg in kwargs.items():
        names += [name] * len(flatten(arg)[0])
    return names


def _outputs(value: object) -> tuple[list[Atom], TreeDef, tuple[object, ...]]:
    """The atoms that the program gives, and the leaves of the result in which they stand."""
    leaves, tree = flatten(value)
    atoms: list[Atom] = []
    out: list[object] = []
    for leaf in leaves:
        if isinstance(leaf, Missing):
            leaf.complain(leaf.src)
        if is_computation(leaf):
            raise KernelEffectError(
                f"the kernel returns {leaf!r:.200}.",
                at=staging().root.src,
                fix="Perform it under its handlers: `return pe.run(handle(..., f(x)))`.",
            )
        if leaf_type(leaf) is None and not isinstance(leaf, ConstantColumn):
            if is_symbolic(leaf):
                raise KernelTypeError(
                    f"the kernel returns {leaf!r:.200}.",
                    at=staging().root.src,
                    fix="Return numbers and tables.",
                )
            check_holds_none(leaf)
            out.append(leaf)
            continue
        out.append(Result(len(atoms), isinstance(leaf, ConstantTracer | ConstantColumn)))
        atoms.append(_atom_of(leaf))
    return atoms, tree, tuple(out)


def _atom_of(leaf: object) -> Atom:
    if isinstance(leaf, ConstantTracer):
        return number_of(leaf)
    if isinstance(leaf, ConstantColumn):
        return leaf.numbers.atom()
    return as_table(leaf).atom() if is_table(leaf) else lift(leaf).atom


def _program(trace: Trace, inputs: KernelInputs, atoms: Sequence[Atom], src: SrcInfo) -> Program:
    """Close the kernel's block, and put the sizes that were found in place of placeholders."""
    block = trace.close(trace.root, atoms)
    found = trace.sizes.resolve()
    renamer = Renamer(found.mapping, fresh=False)
    params = tuple(renamer.bind(param) for param in inputs.params)
    return Program(trace.name, found.sizes, params, found.facts, renamer.block(block), src)


def _without_unused(
    program: Program, captures: Sequence[Capture]
) -> tuple[Program, tuple[Capture, ...]]:
    """The program without the captures, its last parameters, that it does not use.

    All entries of a list or dict that a kernel reads are captured: it rarely uses them all.
    """
    used = set(free_vars(program.body)) | {fact.size for fact in program.facts}
    needed = {size.param for size in program.sizes if size.var in used}
    needed |= {fact.param for fact in program.facts}
    first = len(program.params) - len(captures)
    kept = [
        place
        for place, param in enumerate(program.params)
        if place < first or param in used or place in needed
    ]
    at = {place: new for new, place in enumerate(kept)}
    program = replace(
        program,
        params=tuple(program.params[place] for place in kept),
        sizes=tuple(replace(s, param=at[s.param]) for s in program.sizes if s.param in at),
        facts=tuple(replace(fact, param=at[fact.param]) for fact in program.facts),
    )
    return program, tuple(captures[place - first] for place in kept[first:])
