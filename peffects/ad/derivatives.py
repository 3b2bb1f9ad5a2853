"""Kernels whose programs are derivatives of other functions' programs.

The function is staged for the types of its arguments; the derivative's program has the same
parameters, then those for tangents or cotangents.  A derivative is a kernel, so derivatives nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np

from peffects.differentiate.linearize import has_tangent
from peffects.differentiate.programs import (
    jvp_program,
    transpose_program,
    value_and_grad_program,
    vjp_program,
)
from peffects.errors import DerivativeArgumentError, UnsupportedSyntaxError
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import F64, Block, Program, Scalar, Table, Var
from peffects.kernels.kernel import Kernel
from peffects.kernels.specialization import Callee
from peffects.source import caller
from peffects.staging.captures.readers import Reader
from peffects.staging.stage import Signature, signature, stage
from peffects.staging.structures.results import Outcome
from peffects.staging.structures.trees import (
    ComplexParts,
    TreeDef,
    flatten,
    is_tree,
    parts_of,
    size_leaves,
    unflatten,
)
from peffects.staging.tracing.argument_types import type_of
from peffects.staging.tracing.trace import here

Argnums: TypeAlias = int | tuple[int, ...]
Args: TypeAlias = Sequence[object]
Kwargs: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument: its structure, and the parameter that each of its leaves became.

    `sizes` are those that belong to index sets: a derivative has them as they are.
    """

    tree: TreeDef
    params: tuple[int, ...]
    sizes: frozenset[int]
    dynamic: tuple[bool, ...]  # which leaves became parameters

    def value(self, found: Iterator[object]) -> object:
        """The argument's structure with what was `found` for its parameters, else None."""
        return unflatten(self.tree, [next(found) if is_one else None for is_one in self.dynamic])


def arguments_of(args: Args) -> tuple[Argument, ...]:
    """Which parameters the positional arguments become; leaves that are no numbers become none."""
    found = []
    place = 0
    for arg in args:
        leaves, tree = flatten(arg)
        dynamic = tuple(type_of(leaf) is not None for leaf in leaves)
        pairs = zip(dynamic, size_leaves(tree), strict=True)
        are_sizes = [is_size for is_one, is_size in pairs if is_one]
        params = tuple(range(place, place + len(are_sizes)))
        sizes = frozenset(i for i, is_size in zip(params, are_sizes, strict=True) if is_size)
        found.append(Argument(tree, params, sizes, dynamic))
        place += len(are_sizes)
    return tuple(found)


def chosen(args: tuple[Argument, ...], argnums: Argnums, name: str) -> tuple[Argument, ...]:
    """The arguments that `argnums` names; negative numbers count from the end."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise DerivativeArgumentError(
                f"argnums={number}, but `{name}` was called with {len(args)} positional arguments.",
                at=caller(),
                fix="Pass what you differentiate by position; argnums counts from 0.",
            )
    return tuple(args[number] for number in numbers)


def check_argnums(argnums: object) -> Argnums:
    """`argnums`, if it can name arguments; raises DerivativeArgumentError."""
    numbers = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise DerivativeArgumentError(
            f"argnums={argnums!r} names no arguments.",
            at=caller(),
            fix="Give the place of an argument, `argnums=0`, or a tuple of different places.",
        )
    found = tuple(int(cast(int, number)) for number in numbers)
    return found if isinstance(argnums, tuple | list) else found[0]


def leaf_places(args: Args) -> tuple[tuple[int, ...], int]:
    """The leaf that each parameter stands for, and the number of all leaves of the arguments."""
    leaves, _ = flatten(tuple(args))
    places = tuple(k for k, leaf in enumerate(leaves) if type_of(leaf) is not None)
    return places, len(leaves)


def as_value(value: object, var: Var, role: str, name: str) -> object:
    """A tangent or cotangent as a number or an array of the type of `var`.

    Raises DerivativeArgumentError if it cannot be one.
    """
    t = var.type
    assert isinstance(t, Scalar | Table)
    elem, ndim = (t.elem, len(t.dims)) if isinstance(t, Table) else (t, 0)
    if ndim == 0 and type(value) in (np.dtype(elem.dtype).type, float if elem == F64 else None):
        return value
    array = np.asarray(value)
    if array.ndim != ndim or not np.can_cast(array.dtype, elem.dtype, "same_kind"):
        raise DerivativeArgumentError(
            f"the {role} for {name} has {array.ndim} axes of {array.dtype}, "
            f"but {name} has {ndim} of {elem.dtype}.",
            at=caller(),
            fix=f"Give a {role} of the shape and type of {name}.",
        )
    return array.astype(elem.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Gradient:
    """`grad` and `value_and_grad`: called like the function; value and a tree per argument."""

    inner: Callee
    program: Program
    count: int  # results of the function that come first
    wanted: tuple[Argument, ...]
    single: bool
    with_value: bool
    has_aux: bool

    def arguments(self, args: Args, kwargs: Kwargs) -> list[object] | None:
        """Those of the function."""
        return self.inner.arguments(args, kwargs)

    def reader(self) -> Reader:
        """That of the function."""
        return self.inner.reader()

    def results(self, outputs: Sequence[object]) -> object:
        """The value, if wanted, and the gradient."""
        supply = iter(outputs[self.count :])
        trees = [argument.value(supply) for argument in self.wanted]
        gradient = trees[0] if self.single else tuple(trees)
        if not self.count:
            return gradient
        value = self.inner.results(outputs[: self.count])
        if self.with_value:
            return value, gradient
        assert isinstance(value, tuple)
        return gradient, value[1]


@dataclass(frozen=True, slots=True)
class Forward:
    """`jvp`: called with (arguments, tangents), both tuples; the value, and its tangent."""

    inner: Callee
    program: Program
    count: int
    params: tuple[int, ...]  # those that have tangents
    results_with_tangent: tuple[int, ...]
    sizes: frozenset[int]  # results that belong to index sets
    places: tuple[int, ...]  # of the parameters among the leaves of the arguments
    leaf_count: int

    def arguments(self, args: Args, kwargs: Kwargs) -> list[object] | None:
        """The function's, then the tangents of the floats among them."""
        primals, tangents = args
        assert isinstance(primals, tuple) and isinstance(tangents, tuple)
        values = self.inner.arguments(primals, kwargs)
        if values is None:
            return None
        leaves = _dynamic_leaves(primals, tangents)
        params = self.program.params
        return values + [
            as_value(leaves[i], params[i], "tangent", f"`{params[i].name}`") for i in self.params
        ]

    def reader(self) -> Reader:
        """The function's, then the tangents as they are."""
        inner, count = self.inner.reader(), self.leaf_count
        return _reader_with_more(inner, count, [count + self.places[i] for i in self.params])

    def results(self, outputs: Sequence[object]) -> object:
        """The value and its tangent, of the same structure; 0 for what is no float."""
        value = list(outputs[: self.count])
        tangent: list[object] = [value[k] if k in self.sizes else 0 for k in range(self.count)]
        for place, found in zip(self.results_with_tangent, outputs[self.count :], strict=True):
            tangent[place] = found
        return self.inner.results(value), self.inner.results(tangent)


@dataclass(frozen=True, slots=True)
class Backward:
    """What `vjp` gives: called with (arguments, cotangent); the cotangents of the arguments."""

    inner: Callee
    program: Program
    count: int
    wanted: tuple[Argument, ...]
    params: tuple[int, ...]  # those that have cotangents, then sizes of index sets
    result_vars: tuple[Var | None, ...]  # parameters for the results' cotangents
    leaf_count: int

    def arguments(self, args: Args, kwargs: Kwargs) -> list[object] | None:
        """The function's, then the cotangents of its float results."""
        primals, cotangent = args
        assert isinstance(primals, tuple)
        values = self.inner.arguments(primals, kwargs)
        if values is None:
            return None
        expected, tree = self._expected()
        leaves, given = flatten(cotangent)
        if given != tree and self.has_answers:
            raise DerivativeArgumentError(
                "the value of the function has `Ok` or `Err` in it, where only a call tells which.",
                at=caller(),
                fix="Let it return numbers: `r.value if isinstance(r, Ok) else r.error`.",
            )
        if given != tree:
            raise DerivativeArgumentError(
                "the cotangent has another structure than the value of the function.",
                at=caller(),
                fix="Give a cotangent like the value that `vjp` gave: a number for a number, an "
                "array for an array, a tuple for a tuple.",
            )
        by_place = {
            place.number: leaf
            for place, leaf in zip(expected, leaves, strict=True)
            if isinstance(place, _Placeholder)
        }
        return values + [
            as_value(by_place[k], var, "cotangent", "the result")
            for k, var in enumerate(self.result_vars)
            if var is not None
        ]

    def reader(self) -> Reader:
        """The function's, then the cotangents as they are."""
        leaves, count = self._expected()[0], self.leaf_count
        at = {p.number: count + k for k, p in enumerate(leaves) if isinstance(p, _Placeholder)}
        more = [at[k] for k, var in enumerate(self.result_vars) if var is not None]
        return _reader_with_more(self.inner.reader(), count, more)

    @property
    def has_answers(self) -> bool:
        """Whether the value has parts that say which answer of several it is."""
        results = range(self.count)
        value = self.inner.results([_Placeholder(k) for k in results])
        return bool({*results} - {*_numbers_in(value)})

    def _expected(self) -> tuple[list[object], TreeDef]:
        """The leaves and the structure of a cotangent."""
        return flatten(self.inner.results([_Placeholder(k) for k in range(self.count)]))

    def results(self, outputs: Sequence[object]) -> object:
        """A tuple with a cotangent for each argument; None for leaves that are no floats."""
        found = dict(zip(self.params, outputs, strict=True))
        trees = [a.value(found.get(i) for i in a.params) for a in self.wanted]
        return tuple(trees)


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """Stands for a result while the structure of the value is found out."""

    number: int


def _reader_with_more(inner: Reader, count: int, more: Sequence[int]) -> Reader:
    """`inner` on the first `count` leaves, then the leaves at the places `more`."""

    def read(leaves: Args) -> list[Any] | None:
        values = inner(leaves[:count])
        return None if values is None else values + [leaves[place] for place in more]

    return read


def _dynamic_leaves(primals: tuple[object, ...], tangents: tuple[object, ...]) -> list[object]:
    """The tangents' leaves that stand where the arguments have numbers or arrays."""
    leaves, tree = flatten(primals)
    others, given = flatten(tangents)
    if given != tree:
        raise DerivativeArgumentError(
            "the tangents have another structure than the arguments.",
            at=caller(),
            fix="Give a tuple with one tangent for each argument, nested as the argument is.",
        )
    return [t for leaf, t in zip(leaves, others, strict=True) if type_of(leaf) is not None]


class Derivative(Kernel[..., Any]):
    """A kernel whose program is derived from that of `function` by `derive`."""

    def __init__(
        self,
        function: Callable[..., object],
        derive: Callable[[Callee, Args], Callee],
        make: Callable[[], Derivative],
        *,
        title: str,
        nested_args: bool = False,
    ) -> None:
        super().__init__(_callable(function))
        self.__pe_function__ = _inside_a_kernel
        self._inner = function
        self._derive = derive
        self._make_again = make
        self._title = title
        self._nested_args = nested_args  # called with (arguments, more) instead of arguments

    @property
    def _name(self) -> str:
        """How messages and `repr` name it: `grad(loss, argnums=0)`."""
        inner = self._inner
        while isinstance(inner, partial):
            inner = inner.func
        if isinstance(inner, Kernel):
            return self._title.format(inner._name)
        return self._title.format(getattr(inner, "__qualname__", type(inner).__qualname__))

    def __reduce__(self) -> Any:
        """Pickle as the derivative of the function."""
        return self._make_again, ()

    def stage(self, args: Args, kwargs: Kwargs) -> Callee:
        """Stage the function, and derive."""
        primals = self._primals(args)
        if isinstance(self._inner, Kernel):
            inner = self._inner.stage(primals, kwargs)
        else:
            inner = stage(self._inner, primals, kwargs)
        return self._derive(inner, primals)

    def debug(self, *args: Any, nan: bool = False, **kwargs: Any) -> Any:
        """The value of a call by the reference evaluator: a derivative has no Python source.

        To look for nan, or to step, debug the function itself.
        """
        if nan:
            raise DerivativeArgumentError(
                "a derivative cannot look for nan: it has no lines of its own.",
                at=caller(),
                fix="Look in the function: `f.debug(x, nan=True)`.",
            )
        callee = self.stage(args, kwargs)
        values = callee.arguments(args, kwargs)
        assert values is not None, "a program fits the call that it was staged for"
        return callee.results(evaluate(callee.program, values))

    def signature(self, args: Args, kwargs: Kwargs) -> Signature:
        """Of the function's arguments: tangents and cotangents have types that follow from it."""
        return signature(self._primals(args), kwargs)

    def _primals(self, args: Args) -> Args:
        if not self._nested_args:
            return args
        primals = args[0]
        assert isinstance(primals, tuple)
        return primals


def _inside_a_kernel(*args: object, **kwargs: object) -> NoReturn:
    """Stands for a derivative in a kernel that is being staged: refuses."""
    raise UnsupportedSyntaxError(
        "a derivative is taken inside a kernel.",
        at=here(),
        fix="Take it outside: pass its value to the kernel, or differentiate the whole kernel.",
    )


def _callable(function: object) -> Callable[..., object]:
    if not callable(function):
        raise DerivativeArgumentError(
            f"the derivative of {function!r} was asked for, which is no function.",
            at=caller(),
            fix="Give the function, not its value: `pe.grad(f)(x)`, not `pe.grad(f(x))`.",
        )
    return function


def check_value(inner: Callee, has_aux: bool) -> None:
    """Refuse a function whose value is not one number, or with `has_aux` a pair that begins so."""
    places = [_Placeholder(k) for k in range(len(inner.program.body.results))]
    value = inner.results(places)
    if has_aux:
        pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], _Placeholder)
        good, wanted = pair, "a pair of one number and anything else"
    else:
        good, wanted = isinstance(value, _Placeholder), "one number"
    if isinstance(value[0] if has_aux and isinstance(value, tuple) else value, ComplexParts):
        raise DerivativeArgumentError(
            f"the gradient of `{inner.program.name}` was asked for, which gives a complex number.",
            at=inner.program.src,
            fix="Let it return a real one, such as `abs(z)` or `z.real`; `pe.jvp` and `pe.vjp` "
            "take complex values.",
        )
    if not good:
        raise DerivativeArgumentError(
            f"the gradient of `{inner.program.name}` was asked for, which does not give {wanted}.",
            at=inner.program.src,
            fix=f"Let it return {wanted}; `has_aux=True` is for what comes beside the number, "
            "`pe.vjp` for other values.",
        )


def size_results(inner: Callee) -> frozenset[int]:
    """The results that say of which structure the value is: a tangent has the same.

    They belong to index sets of packed tables, or say which answers are `Ok`, or how many.
    """
    count = len(inner.program.body.results)
    value = inner.results([_Placeholder(k) for k in range(count)])
    leaves, tree = flatten(value)
    pairs = zip(leaves, size_leaves(tree), strict=True)
    sizes = {leaf.number for leaf, is_size in pairs if is_size and isinstance(leaf, _Placeholder)}
    return frozenset(sizes | ({*range(count)} - {*_numbers_in(value)}))


def _numbers_in(value: object) -> Iterator[int]:
    """The results that are numbers or arrays of the value."""
    if isinstance(value, _Placeholder):
        yield value.number
    elif isinstance(value, Outcome):
        yield from (*_numbers_in(value.value), *_numbers_in(value.error))
    elif is_tree(value):
        for _, part in parts_of(value):
            yield from _numbers_in(part)


def gradient(
    function: Callable[..., object], argnums: Argnums, *, with_value: bool, has_aux: bool
) -> Derivative:
    """The kernel of `grad` and `value_and_grad`."""
    argnums = check_argnums(argnums)

    def derive(inner: Callee, args: Args) -> Callee:
        check_value(inner, has_aux)
        wanted = chosen(arguments_of(args), argnums, inner.program.name)
        wrt = [i for a in wanted for i in a.params if i not in a.sizes]
        count = len(inner.program.body.results)
        program = value_and_grad_program(inner.program, wrt)
        program = _with_sizes(program, count, wrt, [i for a in wanted for i in a.params])
        if not with_value and not has_aux:
            program, count = _without_results(program, count), 0
        single = isinstance(argnums, int)
        return Gradient(inner, program, count, wanted, single, with_value, has_aux)

    make = partial(gradient, function, argnums, with_value=with_value, has_aux=has_aux)
    title = f"{'value_and_' * with_value}grad({{}}, argnums={argnums}{', has_aux=True' * has_aux})"
    return Derivative(function, derive, make, title=title)


def forward(function: Callable[..., object]) -> Derivative:
    """The kernel of `jvp`."""

    def derive(inner: Callee, args: Args) -> Callee:
        dynamic = sum(len(a.params) for a in arguments_of(args))
        params = inner.program.params
        wrt = tuple(i for i in range(dynamic) if has_tangent(params[i].type))
        results = inner.program.body.results
        floats = tuple(k for k, r in enumerate(results) if has_tangent(r.type))
        places, leaves = leaf_places(args)
        program = jvp_program(inner.program, wrt)
        sizes = size_results(inner)
        return Forward(inner, program, len(results), wrt, floats, sizes, places, leaves)

    make = partial(forward, function)
    return Derivative(function, derive, make, title="jvp({})", nested_args=True)


def backward(function: Callable[..., object], *, linear: bool = False) -> Derivative:
    """The kernel behind `vjp`, and behind `transpose` if the function must be linear."""

    def derive(inner: Callee, args: Args) -> Callee:
        wanted = arguments_of(args)
        params = inner.program.params
        wrt = tuple(
            i for a in wanted for i in a.params if has_tangent(params[i].type)
        )  # fmt: skip
        results = inner.program.body.results
        if linear:
            program = transpose_program(inner.program, wrt)
        else:
            program = _without_results(vjp_program(inner.program, wrt), len(results))
        known = (*wrt, *(i for a in wanted for i in sorted(a.sizes)))
        program = _with_sizes(program, 0, wrt, known)
        cts = iter(program.params[len(params) :])
        result_vars = tuple(next(cts) if has_tangent(r.type) else None for r in results)
        leaves = leaf_places(args)[1]
        return Backward(inner, program, len(results), wanted, known, result_vars, leaves)

    make = partial(backward, function, linear=linear)
    title = "transpose({})" if linear else "vjp({})"
    return Derivative(function, derive, make, title=title, nested_args=True)


def _with_sizes(program: Program, count: int, wrt: Sequence[int], params: Sequence[int]) -> Program:
    """`program`, whose results after `count` are for `wrt`, with one for each of `params`.

    Parameters that are not among `wrt` are sizes of index sets: they are given back as they are.
    """
    results = program.body.results
    found = dict(zip(wrt, results[count:], strict=True))
    extended = (*results[:count], *(found.get(i, program.params[i]) for i in params))
    return replace(program, body=Block(program.body.bindings, extended))


def _without_results(program: Program, count: int) -> Program:
    """`program` without its first `count` results."""
    return replace(program, body=Block(program.body.bindings, program.body.results[count:]))
