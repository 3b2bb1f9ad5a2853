"""Programs of derivatives: what `ad/` compiles, made from a program by linearize and transpose.

Each is a program of its own, over the same sizes and facts, so that forward and reverse part meet
in one body and the optimizer can fuse their loops.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from peffects.differentiate.linearity import linear_vars
from peffects.differentiate.linearize import has_tangent, linearize_block, tangent_var
from peffects.differentiate.linearize_rules import Tangent
from peffects.differentiate.transpose import transpose_block
from peffects.errors import DerivativeArgumentError, IndexSetMismatchError
from peffects.ir.builder import Builder, lit_like, zeros
from peffects.ir.primitives import EQ
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    I64,
    Atom,
    Binding,
    Block,
    Check,
    Fact,
    FinSet,
    Idx,
    Lit,
    Program,
    Scalar,
    SizeParam,
    Table,
    Type,
    Var,
)


def jvp_program(program: Program, wrt: Sequence[int]) -> Program:
    """From (params.., tangents of params[wrt]..) to (results.., tangents of float results..)."""
    inputs, primal, linear, tangents = _linearized(program, wrt)
    b = Builder(program.src)
    b.bindings += [*primal.bindings, *linear]
    results = [
        zeros(b, result.type) if tangent is None else tangent
        for result, tangent in zip(primal.results, tangents, strict=True)
        if has_tangent(result.type)
    ]
    return _extended(program, "jvp", inputs, wrt, b.block(*primal.results, *results))


def vjp_program(program: Program, wrt: Sequence[int]) -> Program:
    """From (params.., cotangents of results..) to (results.., cotangents of params[wrt]..).

    The cotangent of a table result is a parameter of the same type; its axes are results' sizes, so
    a result whose size is computed in the program gets no check at launch but one at run time.
    """
    inputs, primal, linear, tangents = _linearized(program, wrt)
    outputs = [r for r in primal.results if has_tangent(r.type)]
    known = {size.var for size in program.sizes} | set(program.params)
    cts = [_cotangent(f"ct_{i}", r.type, known) for i, r in enumerate(outputs)]
    b = Builder(program.src)
    b.bindings += primal.bindings
    live = [t for t in tangents if t is not None]
    given = iter([_sized_as(b, ct, r.type) for ct, r in zip(cts, outputs, strict=True)])
    wanted: list[Atom | None] = []
    for result, tangent in zip(primal.results, tangents, strict=True):
        ct = next(given) if has_tangent(result.type) else None
        if tangent is not None:
            wanted.append(ct)
    found = transpose_block(b, Block(linear, tuple(live)), inputs, wanted)
    results = [zeros(b, v.type) if ct is None else ct for v, ct in zip(inputs, found, strict=True)]
    return _extended(program, "vjp", cts, None, b.block(*primal.results, *results))


def _cotangent(name: str, t: Type, known: Container[Atom]) -> Var:
    """The parameter for a result's cotangent; axes of computed sizes have sizes of their own."""
    if not isinstance(t, Table):
        return Var(name, t)
    sizes = (dim.size for dim in t.dims)
    dims = tuple(
        FinSet(size if isinstance(size, Lit) or size in known else Var(f"{name}_{axis}", I64))
        for axis, size in enumerate(sizes)
    )
    return Var(name, Table(dims, t.elem))


def _sized_as(b: Builder, ct: Var, t: Type) -> Atom:
    """A cotangent over the axes of its result, after a test that they are as long."""
    if ct.type == t:
        return ct
    assert isinstance(ct.type, Table) and isinstance(t, Table)
    for axis, (own, dim) in enumerate(zip(ct.type.dims, t.dims, strict=True)):
        if own != dim:
            text = f"axis {axis} of the cotangent has length {{0}}, that of the result {{1}}."
            fix = "Give a cotangent of the shape of the result."
            same = b.prim(EQ, own.size, dim.size)
            b.emit(Check(same, IndexSetMismatchError, text, (own.size, dim.size), fix))
    binders = tuple(Var("i", Idx(dim)) for dim in t.dims)
    inner = b.nested()
    element = inner.index(ct, *binders)
    return b.loop(binders, inner.block(element), (ct.name,))[0]


def value_and_grad_program(program: Program, wrt: Sequence[int], result: int = 0) -> Program:
    """From params.. to (results.., gradient of results[result] with respect to params[wrt]..)."""
    if not isinstance(program.body.results[result].type, Scalar):
        raise DerivativeArgumentError(
            f"the gradient of `{program.name}` was asked for, which gives a table, not a number.",
            at=program.src,
            fix="Reduce the result to a number, or use `pe.vjp` or `pe.jvp`.",
        )
    if not has_tangent(program.body.results[result].type):
        raise DerivativeArgumentError(
            f"the gradient of `{program.name}` was asked for, which gives "
            f"{program.body.results[result].type}, not a float.",
            at=program.src,
            fix="Return a float.",
        )
    inputs, primal, linear, tangents = _linearized(program, wrt)
    b = Builder(program.src)
    b.bindings += primal.bindings
    outcome, tangent = primal.results[result], tangents[result]
    found: Sequence[Tangent] = (None,) * len(inputs)
    if tangent is not None:
        assert isinstance(outcome.type, Scalar)
        one = lit_like(1.0, outcome.type)
        found = transpose_block(b, Block(linear, (tangent,)), inputs, (one,))
    results = [zeros(b, v.type) if ct is None else ct for v, ct in zip(inputs, found, strict=True)]
    return _extended(program, "grad", (), None, b.block(*primal.results, *results))


def transpose_program(program: Program, wrt: Sequence[int]) -> Program:
    """From (other params.., cotangents of the results..) to the cotangents of params[wrt]...

    The program must be linear in params[wrt]: LinearityError, at the user's line, if it is not.
    """
    linear_vars(program.body, [program.params[i] for i in wrt])
    full = vjp_program(program, wrt)
    count = len(program.body.results)
    return replace(full, body=Block(full.body.bindings, full.body.results[count:]))


def _linearized(
    program: Program, wrt: Sequence[int]
) -> tuple[tuple[Var, ...], Block, tuple[Binding, ...], tuple[Tangent, ...]]:
    for i in wrt:
        if not has_tangent(program.params[i].type):
            raise DerivativeArgumentError(
                f"`{program.params[i].name}` of `{program.name}` holds no floats, so there is no "
                "derivative with respect to it.",
                at=program.src,
                fix="Give floats, or leave it out of `argnums`.",
            )
    inputs = tuple(tangent_var(program.params[i]) for i in wrt)
    tangents = {program.params[i]: var for i, var in zip(wrt, inputs, strict=True)}
    found = linearize_block(refresh(program.body), tangents)
    return inputs, found.primal, found.linear, found.tangents


def _extended(
    program: Program, prefix: str, more: Sequence[Var], wrt: Sequence[int] | None, body: Block
) -> Program:
    """`program` with further parameters; those that mirror a parameter must have its shape."""
    params = (*program.params, *more)
    facts, sizes = list(program.facts), list(program.sizes)
    known = {size.var for size in sizes} | set(program.params)
    for k, var in enumerate(more):
        if isinstance(var.type, Table):
            name = var.name if wrt is None else program.params[wrt[k]].name
            for axis, dim in enumerate(var.type.dims):
                place, other = len(program.params) + k, f"axis {axis} of `{name}`"
                if isinstance(dim.size, Var) and dim.size not in known:
                    sizes.append(SizeParam(dim.size, place, axis))
                else:
                    facts.append(Fact(place, axis, dim.size, other, program.src))
    return replace(
        program,
        name=f"{prefix}_{program.name}",
        sizes=tuple(sizes),
        params=params,
        facts=tuple(facts),
        body=body,
    )
