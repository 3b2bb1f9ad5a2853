"""Programs built by hand in the IR, shared by the tests of passes and back-ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peffects.ir import primitives as p
from peffects.ir.builder import Builder, index_var, int_lit, lit_like
from peffects.ir.check import check_program
from peffects.ir.syntax import (
    F64,
    I64,
    Accumulate,
    Atom,
    Block,
    Bounds,
    Cond,
    Fact,
    FinSet,
    Fold,
    For,
    Monoid,
    Program,
    Ref,
    Scalar,
    SizeParam,
    Table,
    Var,
    WithAcc,
)
from peffects.source import UNKNOWN


def num(value: float) -> Atom:
    """An f64 literal."""
    return lit_like(value, F64)


class Sketch:
    """Declares sizes and parameters, then builds the body with a `Builder`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: list[SizeParam] = []
        self.params: list[Var] = []
        self.facts: list[Fact] = []
        self.known: dict[str, Var] = {}
        self.b = Builder()

    def scalar(self, name: str, t: Scalar = F64) -> Var:
        """A scalar parameter."""
        self.params.append(Var(name, t))
        return self.params[-1]

    def table(self, name: str, *axes: str, elem: Scalar = F64) -> Var:
        """A table parameter whose axes are named sizes; an equal name is an equal size."""
        place, dims = len(self.params), []
        for k, axis in enumerate(axes):
            if axis not in self.known:
                self.known[axis] = Var(axis, I64)
                self.sizes.append(SizeParam(self.known[axis], place, k))
            else:
                self.facts.append(Fact(place, k, self.known[axis], axis, UNKNOWN))
            dims.append(FinSet(self.known[axis], axis))
        self.params.append(Var(name, Table(tuple(dims), elem)))
        return self.params[-1]

    def index(self, name: str, axis: str) -> Var:
        """A loop variable over a named size."""
        return index_var(name, self.known[axis], axis)

    def done(self, *results: Atom) -> Program:
        """The checked program."""
        return check_program(
            Program(
                self.name, tuple(self.sizes), tuple(self.params), tuple(self.facts),
                self.b.block(*results),
            ),
            "construction",
        )  # fmt: skip


Body = Callable[[Builder], Atom | tuple[Atom, ...]]


def _block(b: Builder, body: Body) -> Block:
    inner = b.nested()
    results = body(inner)
    return inner.block(*(results if isinstance(results, tuple) else (results,)))


def tabulate(b: Builder, binders: Sequence[Var], body: Body) -> Var:
    """The one table of a parallel loop."""
    return b.loop(binders, _block(b, body))[0]


def reduce(b: Builder, binders: Sequence[Var], body: Body, monoid: Monoid = Monoid.ADD) -> Var:
    """A reduction of `body` over `binders`."""
    return b.reduce(monoid, binders, _block(b, body))


def matmul() -> Program:
    """c[i, j] = sum_k a[i, k] b[k, j]."""
    s = Sketch("matmul")
    a, b = s.table("a", "n", "m"), s.table("b", "m", "p")
    i, j, k = s.index("i", "n"), s.index("j", "p"), s.index("k", "m")

    def element(o: Builder) -> Atom:
        return reduce(o, [k], lambda q: q.prim(p.MUL, q.index(a, i, k), q.index(b, k, j)))

    return s.done(tabulate(s.b, [i, j], element))


def log_likelihood() -> Program:
    """The log-likelihood of a mixture of diagonal Gaussians, up to a constant."""
    s = Sketch("log_likelihood")
    x = s.table("x", "n", "d")
    log_weight = s.table("log_weight", "K")
    mean, log_scale = s.table("mean", "K", "d"), s.table("log_scale", "K", "d")

    def precision_of(o: Builder, k: Var, j: Var) -> Atom:
        return o.prim(p.EXP, o.prim(p.MUL, num(-2.0), o.index(log_scale, k, j)))

    k, j = s.index("k", "K"), s.index("j", "d")
    precision = tabulate(s.b, [k, j], lambda o: precision_of(o, k, j))
    k2, j2 = s.index("k", "K"), s.index("j", "d")
    norm = tabulate(
        s.b, [k2],
        lambda o: o.prim(
            p.SUB, o.index(log_weight, k2), reduce(o, [j2], lambda q: q.index(log_scale, k2, j2))
        ),
    )  # fmt: skip
    n = s.index("n", "n")

    def square(q: Builder, k: Var, j: Var) -> Atom:
        diff = q.prim(p.SUB, q.index(x, n, j), q.index(mean, k, j))
        return q.prim(p.MUL, q.prim(p.MUL, diff, diff), q.index(precision, k, j))

    def component(o: Builder, k: Var) -> Atom:
        j = s.index("j", "d")
        distance = reduce(o, [j], lambda q: square(q, k, j))
        return o.prim(p.SUB, o.index(norm, k), o.prim(p.MUL, num(0.5), distance))

    def point(o: Builder) -> Atom:
        k, k3, k4 = (s.index("k", "K") for _ in range(3))
        t = tabulate(o, [k], lambda q: component(q, k))
        top = reduce(o, [k3], lambda q: q.index(t, k3), Monoid.MAX)
        top = o.prim(p.STOP_GRADIENT, top)
        total = reduce(o, [k4], lambda q: q.prim(p.EXP, q.prim(p.SUB, q.index(t, k4), top)))
        return o.prim(p.ADD, top, o.prim(p.LOG, total))

    return s.done(reduce(s.b, [n], point))


def histogram(bins: int = 4) -> Program:
    """h[clamp(int(x[i]))] += w[i], with a checked index."""
    s = Sketch("histogram")
    x, w = s.table("x", "n"), s.table("w", "n")
    i = s.index("i", "n")
    ref = Var("h", Ref(Monoid.ADD, Table((FinSet(int_lit(bins), "bins"),), F64)))
    body, loop = s.b.nested(), s.b.nested()
    b = loop.prim(p.CAST[I64], loop.index(x, i))
    loop.accumulate(ref, (b,), loop.index(w, i), Bounds.CHECKED)
    body.loop([i], loop.block())
    return s.done(*s.b.emit(WithAcc((ref,), body.block())))


def running_product() -> Program:
    """From s = x0, for i: s = s * a[i]."""
    s = Sketch("running_product")
    x0, a = s.scalar("x0"), s.table("a", "n")
    i, carry = s.index("i", "n"), Var("s", F64)
    body = s.b.nested()
    step = body.prim(p.MUL, carry, body.index(a, i))
    return s.done(*s.b.emit(Fold(i, False, (carry,), (x0,), body.block(step))))


def running_sums() -> Program:
    """Prefix sums of the squares: a fold with an output; and its last carry."""
    s = Sketch("running_sums")
    a = s.table("a", "n")
    i, carry = s.index("i", "n"), Var("s", F64)
    body = s.b.nested()
    x = body.index(a, i)
    step = body.prim(p.ADD, carry, body.prim(p.SIN, body.prim(p.MUL, x, carry)))
    step = body.prim(p.ADD, step, x)
    total, sums = s.b.emit(Fold(i, False, (carry,), (num(0.0),), body.block(step, step)))
    j = s.index("j", "n")
    out = reduce(s.b, [j], lambda q: q.prim(p.MUL, q.index(sums, j), q.index(sums, j)))
    return s.done(s.b.prim(p.ADD, total, out))


def guarded_norm() -> Program:
    """Sum over rows of sqrt(sum of squares), 0 for rows of zeros: a branch inside a loop."""
    s = Sketch("guarded_norm")
    x = s.table("x", "n", "d")
    i, j = s.index("i", "n"), s.index("j", "d")

    def row(o: Builder) -> Atom:
        view = o.index(x, i)
        ss = reduce(o, [j], lambda q: q.prim(p.MUL, q.index(view, j), q.index(view, j)))
        then, orelse = o.nested(), o.nested()
        root = then.prim(p.SQRT, ss)
        pred = o.prim(p.LT, num(0.0), ss)
        return o.emit(Cond(pred, then.block(root), orelse.block(num(0.0))))[0]

    return s.done(reduce(s.b, [i], row))


def largest() -> Program:
    """The largest of sin(x[i]) c."""
    s = Sketch("largest")
    x, c = s.table("x", "n"), s.scalar("c")
    i = s.index("i", "n")
    return s.done(
        reduce(s.b, [i], lambda q: q.prim(p.MUL, c, q.prim(p.SIN, q.index(x, i))), Monoid.MAX)
    )


def triangle() -> Program:
    """For each i, an accumulator in a branch in a loop over j <= i, and a table of size i + 1."""
    s = Sketch("triangle")
    x = s.table("x", "n")
    i = s.index("i", "n")

    def row(o: Builder) -> Atom:
        size = o.prim(p.ADD, o.ordinal(i), int_lit(1), name="size")
        j, j2 = index_var("j", size), index_var("j", size)
        squares = tabulate(
            o, [j],
            lambda q: q.prim(
                p.MUL, q.index(x, q.ordinal(j), bounds=Bounds.CHECKED), q.index(x, i)
            ),
        )  # fmt: skip
        acc = Var("acc", Ref(Monoid.ADD, F64))
        body, loop = o.nested(), o.nested()
        value = loop.index(squares, j2)
        then, orelse = loop.nested(), loop.nested()
        then.emit(Accumulate(acc, (), value, Bounds.PROVED))
        loop.emit(Cond(loop.prim(p.LT, num(0.0), value), then.block(), orelse.block()))
        body.emit(For((j2,), loop.block()))
        return o.emit(WithAcc((acc,), body.block()))[0]

    return s.done(reduce(s.b, [i], row))
