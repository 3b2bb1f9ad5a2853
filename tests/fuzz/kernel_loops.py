"""More statements of random kernels: loops that carry tables, states, ragged sets, masked numbers.

Each is a function of the writer that gives lines, as the methods of `kernel_programs.Writer` do; a
line `# two rows` says that numpy changes the length of arrays that are shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.kernel_programs import Writer

__all__ = ["STATEMENTS"]

STEPS = (
    "{u} = 0.5 * {u} + 0.1 * x", "{u} = {u}[::-1]", "{u} = np.roll({u}, 1) * 0.9",
    "{u} = np.where({u} > {e}, 0.5 * {u}, {u} + 0.1)", "{u} = np.tanh({u} + {e})",
    "{u} = np.concatenate([{u}[:1], {u}[1:]])", "{u} = np.concatenate([{u}[1:], {u}[:1]])",
    "{u} = np.hstack([{u}[2:], {u}[:2]])", "{u} = {u}[at]", "{u} = np.cumsum({u}) * 0.3",
    "{u}, {v} = {v}, 0.5 * {u}", "{u} = {u} - 0.1 * np.sum({u})", "{u} = np.sort({u})",
    "{u} = np.maximum({u}, {v})", "{u} = np.clip({u}, -0.5, 0.7)", "{u} = np.abs({u})",
    "old = {u}; {u} = pe.table(lambda i: 0.5 * old[i] + 0.1 * {e}, over=len(x))",
    "old = {u}; {u} = pe.table(lambda i: old[len(old) - 1 - i] * 0.9, over=x.shape)",
    "old = {u}; {u} = pe.table(lambda i: old[max(i - 1, 0)] - 0.1 * old[i], over=x.index)",
    "{u} = a[:, 0] * 0.3 + {u}", "{u} = {v} if {e} > 0.1 else {u}",
    "{v} = {u} * {u}; {u} = {v} - 0.5 * {u}", "{u} = np.flip({u}) + 0.0", "{v} = {u}",
    "{u} = np.stack([{u}, {v}]).sum(axis=0) * 0.5", "{u} = np.tile({u}, 2)[:len({u})]",
)  # fmt: skip
LONG_STEPS = (
    "{u} = np.concatenate([{u}[:1], 0.5 * ({u}[2:] + {u}[:-2]), {u}[-1:]])",
    "{u} = np.append({e}, {u}[:-1])", "{u} = np.hstack([0.5, np.diff({u})])",
    "{u} = np.concatenate(([{e}], {u}[1:-1], [0.25]))",
)  # fmt: skip
WRITES = (
    "{m}[r] = pe.tanh({e} + {m}[r])", "{m}[r] += 0.1 * {e}", "{m}[at[r]] = {e}",
    "{m}[:r] = 0.5 * {m}[:r]", "{m}[r:] = {e}", "{m}[1:] = {m}[:-1]", "{m}[::2] = 0.25",
    "{m}[1:-1] += 0.1 * ({m}[2:] - 2.0 * {m}[1:-1] + {m}[:-2])", "{m}[:] = {m}[::-1]",
    "{m}[-1] = {m}[0] * 0.5", "{m}[r] *= 0.9", "{m}[:count] = x[:count]",
    "{m}[len(x) - 1 - r], {m}[r] = {m}[r], {m}[len(x) - 1 - r]",
)  # fmt: skip
ROWS = (
    "{b}[r, :] = {e}", "{b}[r] = 0.5 * {b}[r] + 0.1", "{b}[r, :] += a[at[r]]", "{b}[:, :] *= 0.9",
    "{b}[r, :1] = 0.5", "{b}[:, 0:1] = {b}[:, 0:1] + 0.1", "{b}[r] = {b}[r][::-1]",
)  # fmt: skip
MASKED = (
    "np.sum(np.where({m} > 0.0, np.log({m}), 0.0))", "np.sum(np.where({m} > 0.0, {e} / {m}, 0.1))",
    "np.sum(np.where({m} > 0.0, np.sqrt({m}), {m}))", "np.nansum(0.3 * {m} / {m})",
    "pe.sum(lambda i: {m}[i] * pe.log({m}[i]) if {m}[i] > 0.0 else 0.0)",
    "pe.sum(lambda i: pe.where({m}[i] > 0.0, {m}[i] ** -0.5, 0.0))",
    "np.nansum(np.log(x + 0.013)) * 0.1", "np.nanprod(0.5 + np.sqrt(x - 0.3))",
    "pe.sum(lambda i: {m}[i] * pe.min(lambda j: pe.where(y[j] > 9.0, y[j] / 0.0, {m}[i])))",
    "pe.sum(lambda i: r{n}[i] if {m}[i] > 0.0 else 0.0)", "np.sum(np.where({m} > 0.0, r{n}, 0.5))",
)  # fmt: skip


def carried_arrays(w: Writer) -> list[str]:
    """Two arrays that the rounds of a loop change, as numpy's users do."""
    u, v = f"u{w.number}", f"v{w.number}"
    lines, long = [], w.choices.one_in(4)
    for _ in range(w.choices.between(1, 3)):
        step = w.choices.item((*STEPS, *LONG_STEPS) if long else STEPS)
        step = step.format(u=u, v=v, e=w.leaf(w.scope))
        lines += [f"if s > 0.1:\n            {step.replace('; ', chr(10) + ' ' * 12)}"] if (
            w.choices.one_in(5)
        ) else step.split("; ")  # fmt: skip
    if w.choices.one_in(4):
        leave = w.choices.item(("break", "continue"))
        lines[1:1] = [f"if s > {w.leaf(w.scope)}:\n            {leave}"]
    if w.choices.one_in(2):
        lines.append(f"s = pe.tanh(s + np.sum({u}))")
    head = w.choices.item(("for r in range(count):", "for r in range(len(x)):", "while"))
    start = [f"{u} = {w.choices.item(('x', '0.5 * x', 'x + 0.0', 'x.copy()'))}", f"{v} = 0.25 * x"]
    if head == "while":
        start, head, lines = [*start, "k = 0"], "while k < count:", ["k += 1", *lines]
    if long:
        start = ["# two rows", *start]
    w.scope.tables += [u, v]
    return [*start, head, *(f"    {line}" for line in lines)]


def written_state(w: Writer) -> list[str]:
    """A state that is written by elements and slices."""
    m = f"m{w.number}"
    lines = [w.choices.item(WRITES).format(m=m, e=w.leaf(w.scope))
             for _ in range(w.choices.between(1, 3))]  # fmt: skip
    if w.choices.one_in(3):
        lines = [f"if x[r] > {w.leaf(w.scope)}:", *(f"    {line}" for line in lines)]
    if w.choices.one_in(3):
        lines.append(f"s = pe.tanh(s + {m}[r])")
    first = w.choices.item(("x", "0.5 * x", "pe.table(lambda i: 0.5 * x[i])"))
    t = f"t{w.number}"
    w.scope.tables.append(t)
    last = w.choices.item((f"{m}.get()", f"pe.table(lambda i: {m}[i] * 0.5)"))
    return [f"{m} = pe.state({first})", "for r in range(len(x)):",
            *(f"    {line}" for line in lines), f"{t} = {last}"]  # fmt: skip


def written_rows(w: Writer) -> list[str]:
    """A state with two axes."""
    b = f"b{w.number}"
    lines = [w.choices.item(ROWS).format(b=b, e=w.leaf(w.scope))
             for _ in range(w.choices.between(1, 3))]  # fmt: skip
    return [f"{b} = pe.state(0.5 * a)", "for r in range(len(x)):",
            *(f"    {line}" for line in lines),
            f"s = pe.tanh(s + 0.1 * pe.sum(lambda i, j: {b}[i, j] * y[j]))"]  # fmt: skip


def masked(w: Writer) -> list[str]:
    """Infinities and nans that a mask leaves out, also of a table that was made before."""
    m, n = f"w{w.number}", w.number
    w.scope.tables.append(m)
    term = w.choices.item(MASKED).format(m=m, n=n, e=w.leaf(w.scope))
    made = w.choices.item(("np.log({m})", "np.sqrt({m})", "1.0 / {m}")).format(m=m)
    return [f"{m} = np.where(x > {w.choices.item(('0.0', '0.3', 's'))}, 0.1 + x * x, 0.0)",
            f"r{n} = {made}", f"s = pe.tanh(s + 0.1 * {term})"]  # fmt: skip


def ragged(w: Writer) -> list[str]:
    """A table over rows of different lengths, its sums, and an accumulator over it."""
    r, t = f"g{w.number}", f"t{w.number}"
    body = w.expression(w.scope.inside(row="i"), 1)
    table = w.choices.item((
        f"pe.table(lambda i, j: pe.tanh({body} + 0.1 * j), over={r})",
        f"pe.table(lambda i: pe.table(lambda j: pe.tanh({body} - 0.1 * j), "
        f"over={r}.row(i)), over=x)",
    ))  # fmt: skip
    more = w.choices.item((
        [],
        [f"h{r} = pe.accumulator({r})", f"for i, j in pe.par({r}):",
         f"    h{r}[i, j] += {t}r[i, j] * x[i]",
         f"s = pe.tanh(s + 0.1 * pe.sum(lambda i: pe.sum(lambda j: h{r}[i, j] * {t}r[i, j])))"],
        [f"s = pe.tanh(s + 0.1 * pe.sum({t}r * {t}r))"],
    ))  # fmt: skip
    w.scope.tables.append(t)
    return [f"{r} = pe.Ragged(at)", f"{t}r = {table}", *more,
            f"{t} = pe.table(lambda i: pe.sum(lambda j: 0.3 * {t}r[i, j]), over=x)"]  # fmt: skip


def inner_loop(w: Writer) -> list[str]:
    """A sequential loop inside a parallel one."""
    f, t = f"f{w.number}", f"t{w.number}"
    inside = w.scope.inside(row="i")
    leaf, step = w.leaf(inside), w.expression(inside, 1)
    q = f"q = pe.tanh(0.5 * q + {step})"
    loop = w.choices.item((
        ["for r in range(count):", f"    {q}"],
        ["for r in range(len(x)):", f"    if x[r] > {leaf}:", "        continue", f"    {q}"],
        ["for r in range(count):", f"    if q > {leaf}:", "        break", f"    {q}"],
        ["for r in range(count):", f"    if q > {leaf}:", "        return q * 0.5", f"    {q}"],
        ["for v in y:", f"    q = pe.tanh(q + v * {leaf})"],
        ["for r in range(i):", "    q = 0.5 * q + 0.1 * x[r]"],
        ["k = 0", "while k < 6 and q < 0.5:", f"    {q} + 0.1", "    k += 1"],
        ["k = 0", "while k < count:", "    k += 1", f"    if q > {leaf}:", "        break",
         f"    {q}"],
        ["m = pe.state(y * 0.5)", "for j in range(len(y)):", "    m[j] = pe.tanh(q + y[j])",
         "    q = q + 0.1 * m[j]"],
    ))  # fmt: skip
    w.scope.tables.append(t)
    return [f"def {f}(i):", "    q = x[i]", *(f"    {line}" for line in loop), "    return q",
            f"{t} = pe.table({f}, over=x.index)"]  # fmt: skip


def pairs(w: Writer) -> list[str]:
    """Accumulators with two axes and with none, over pairs."""
    h, body = f"h{w.number}", w.expression(w.scope.inside(row="i", column="j"), 1)
    op, start = w.choices.item((("+=", ""), ("+=", ""), ("max", "op='max'"), ("*=", "op='mul'")))
    place = w.choices.item(("at[i], j", "i, j"))
    if op == "max":
        write = [f"{h}.combine(({place}), pe.tanh({body}))", f"c{h}.combine((), pe.tanh({body}))"]
    else:
        value = f"pe.tanh({body})" if op == "+=" else f"(1.0 + 0.1 * pe.tanh({body}))"
        write = [f"{h}[{place}] {op} {value}", f"c{h} {op} {value}"]
    return [f"{h} = pe.accumulator((x.index, y.index)" + (f", {start})" if start else ")"),
            f"c{h} = pe.accumulator({start})", "for i, j in pe.par(x, y):",
            *(f"    {line}" for line in write),
            f"s = pe.tanh(s + 0.1 * pe.sum(lambda i, j: pe.tanh({h}[i, j]) * a[i, j]))",
            f"if len(x) > 0 and len(y) > 0:\n        s = s + 0.1 * pe.tanh(c{h})"
            if w.choices.one_in(2) else "s = s * 1.0"]  # fmt: skip


def filtered(w: Writer) -> list[str]:
    """What holds for some elements only, in order."""
    leaf = w.leaf(w.scope)
    if w.choices.one_in(2):
        return [f"k{w.number} = pe.filter(lambda v: v > {leaf}, x)",
                f"s = pe.tanh(s + np.sum(k{w.number}))"]  # fmt: skip
    return [f"k{w.number} = pe.list_accumulator()", "for i in pe.par(x):",
            f"    if x[i] > {leaf}:", f"        k{w.number}.append(x[i] * 0.5)",
            f"s = pe.tanh(s + pe.sum(lambda i: k{w.number}[i]))"]  # fmt: skip


def scanned(w: Writer) -> list[str]:
    """A scan with a carry of several parts; a reduction of one's own."""
    t, body = f"t{w.number}", w.expression(w.scope.inside(row="i"), 1)
    w.scope.tables.append(t)
    return w.choices.item((
        [f"s, {t} = pe.scan(lambda c, i: (pe.tanh(c + {body}), c * 0.5), s, x.index)"],
        ["def step(c, v):", "    p, q = c", "    return (q, pe.tanh(p + v)), p - q",
         f"(s, rest), {t} = pe.scan(step, (s, 0.25), x)"],
        [f"{t} = pe.fold(lambda c, i: 0.5 * c + 0.1 * x[i], 0.5 * x, over=x.index)"],
        [f"s, {t} = pe.scan(lambda c, v: (0.5 * c + v, c), s, x, reverse=True)"],
    ))  # fmt: skip


STATEMENTS = {
    "carried_arrays": carried_arrays, "written_state": written_state, "written_rows": written_rows,
    "masked": masked, "ragged": ragged, "inner_loop": inner_loop, "pairs": pairs,
    "filtered": filtered, "scanned": scanned,
}  # fmt: skip
