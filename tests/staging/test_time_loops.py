"""Stencils in loops, in every spelling that users of numpy have: values and gradients.

A program is a step, which keeps the size of a table, and a form of loop, which repeats it.  Steps
are written in numpy and run as they are for the reference; those with forms of ours have a twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import check, check_slope
from staged import run

import peffects as pe
from peffects.ad import check_grads
from peffects.errors import PeffectsError

Step = Callable[[Any], Any]
Form = Callable[[Step, Any, Any], Any]


@dataclass(frozen=True)
class Spelling:
    """A step; `twin` is the same in numpy; for tables of fewer than `least` it is no step."""

    step: Step
    least: int = 0
    twin: Step | None = None

    @property
    def reference(self) -> Step:
        """The step in numpy."""
        return self.twin or self.step


def neighbours(u: Any) -> Any:
    """A helper that steps call."""
    return np.roll(u, 1) + np.roll(u, -1) - 2 * u


def edges(u: Any) -> Any:
    """Numpy's own: the mean with both neighbours, an end being its own one."""
    p = np.pad(u, 1, mode="edge") if len(u) else np.zeros(2)
    return (p[2:] + p[1:-1] + p[:-2]) / 3


def inner(u: Any) -> Any:
    """Numpy's own: the ends stay."""
    v = u.copy()
    v[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return v


def by_table(u: Any) -> Any:
    last = len(u) - 1
    return pe.table(lambda i: (u[max(i - 1, 0)] + u[i] + u[min(i + 1, last)]) / 3, over=len(u))


def by_shape(u: Any) -> Any:
    v, last = u, u.shape[0] - 1
    return pe.table(lambda i: (v[max(i - 1, 0)] + v[i] + v[min(i + 1, last)]) / 3, over=u.shape)


def by_sum_of_slice(u: Any) -> Any:
    p = np.pad(u, 1, mode="edge")
    return pe.table(lambda i: pe.sum(p[i : i + 3]) / 3, over=len(p) - 2)


def by_accumulator(u: Any) -> Any:
    h = pe.accumulator(len(u))
    for i in pe.par(len(u)):
        h[i] += u[i] / 3
        h[min(i + 1, len(u) - 1)] += u[i] / 3
        h[max(i - 1, 0)] += u[i] / 3
    return h.copy()


def by_state(u: Any) -> Any:
    v = pe.state(u)
    v[1:-1] += 0.1 * (v[2:] - 2 * v[1:-1] + v[:-2])
    return v.get()


def by_elements(u: Any) -> Any:
    v = pe.state(u)
    old = v.copy()
    for i in range(1, len(u) - 1):
        v[i] = old[i] + 0.1 * (old[i + 1] - 2 * old[i] + old[i - 1])
    return v.get()


def by_mask(u: Any) -> Any:
    i = np.arange(len(u))
    mask = (i > 0) & (i < len(u) - 1)
    return np.where(mask, u + 0.1 * (np.roll(u, -1) - 2 * u + np.roll(u, 1)), u)


def by_every_second(u: Any) -> Any:
    v = pe.state(u)
    v[::2] *= 0.5
    v[::-2] = v[::-2] + 1.0
    v[v > 1.5] = 1.5
    v[[0, 1]] -= 0.25
    return v.get()


def every_second(u: Any) -> Any:
    v = u.copy()
    v[::2] *= 0.5
    v[::-2] = v[::-2] + 1.0
    v[v > 1.5] = 1.5
    v[[0, 1]] -= 0.25
    return v


STEPS = {
    "helper": Spelling(lambda u: u + 0.1 * neighbours(u)),
    "cut": Spelling(lambda u: np.concatenate([u[:1], u[1:]])),
    "around": Spelling(lambda u: np.concatenate((u[2:], u[:2]))),
    "last first": Spelling(lambda u: np.concatenate([u[-1:], u[:-1]])),
    "backwards": Spelling(lambda u: u[::-1]),
    "halves": Spelling(lambda u: np.concatenate([u[::2], u[1::2]])),
    "halves, backwards": Spelling(lambda u: np.concatenate([u[-1::-2], u[-2::-2]]) * 0.5, 2),
    "middle": Spelling(lambda u: np.concatenate([u[: len(u) // 2], u[len(u) // 2 :]]) * 0.5),
    "ends": Spelling(
        lambda u: np.concatenate([u[:1], u[1:-1] + 0.1 * np.diff(np.diff(u)), u[-1:]]), 2
    ),
    "numbers": Spelling(lambda u: np.concatenate([[0.5], u[1:-1] * 0.5, [u[0]]]), 2),
    "hstack": Spelling(lambda u: np.hstack([u[0], (u[2:] + u[:-2]) / 2, u[-1]]), 2),
    "append": Spelling(lambda u: np.append(u[1:], u[0]), 1),
    "padded": Spelling(lambda u: u + 0.1 * np.pad(u[2:] - 2 * u[1:-1] + u[:-2], 1), 2),
    "pad wrap": Spelling(lambda u: (np.pad(u, 1, "wrap")[2:] + np.pad(u, 1, "wrap")[:-2]) / 2, 1),
    "pad edge": Spelling(edges, 1),
    "gradient": Spelling(lambda u: u - 0.1 * np.gradient(np.gradient(u), 0.5), 2),
    "gradient, steep": Spelling(lambda u: u - 0.1 * np.gradient(u, edge_order=2), 3),
    "diff": Spelling(lambda u: u + 0.1 * np.diff(u, prepend=u[:1])),
    "convolve": Spelling(lambda u: np.convolve(u, np.array([0.25, 0.5, 0.25]), "same"), 3),
    "interp": Spelling(lambda u: np.interp(np.arange(len(u)) - 0.25, np.arange(len(u)), u), 1),
    "take": Spelling(lambda u: u[np.arange(len(u)) - 1 + (np.arange(len(u)) == 0)] * 0.5, 1),
    "along axis": Spelling(lambda u: np.take_along_axis(u, np.argsort(-u), 0)),
    "stack": Spelling(lambda u: np.stack([u, 0.5 * u, np.roll(u, 1)])[1:].sum(axis=0)),
    "comprehension": Spelling(
        lambda u: sum(w * np.roll(u, s) for w, s in ((0.25, -1), (0.5, 0), (0.25, 1)))
    ),
    "list": Spelling(lambda u: np.mean([np.roll(u, s) for s in range(-1, 2)], axis=0)),
    "reshape": Spelling(lambda u: (u.reshape(-1, 1) * 0.5).ravel()),
    "zeros": Spelling(lambda u: np.zeros(len(u)) + np.ones_like(u) * 0.5 * u),
    "repeat": Spelling(lambda u: np.repeat(u, 2)[::2] + np.tile(u, 2)[: len(u)]),
    "select": Spelling(lambda u: np.select([u > 1.0, u > 0.5], [u * 0.5, u - 0.1], u)),
    "sorted": Spelling(lambda u: np.sort(u)[::-1] * 0.9),
    "sum": Spelling(lambda u: np.cumsum(u) * 0.1),
    "kron": Spelling(lambda u: np.kron(u, np.array([0.5, 2.0]))[::2]),
    "mask": Spelling(by_mask),
    "table over len": Spelling(by_table, 0, edges),
    "table over shape": Spelling(by_shape, 0, edges),
    "sum of a slice": Spelling(by_sum_of_slice, 1, edges),
    "accumulator": Spelling(by_accumulator, 1, edges),
    "state": Spelling(by_state, 0, inner),
    "elements": Spelling(by_elements, 0, inner),
    "steps of slices": Spelling(by_every_second, 2, every_second),
    "n - 1 + 1": Spelling(
        lambda u: pe.table(lambda i: u[i] * 0.5, over=len(u) - 1 + 1), 0, lambda u: u * 0.5
    ),
}

# --- loops ---------------------------------------------------------------------------------------


def by_for(step: Step, u: Any, n: Any) -> Any:
    for _ in range(n):
        u = step(u)
    return u


def by_while(step: Step, u: Any, n: Any) -> Any:
    k = 0
    while k < n:
        old = u.copy()
        u = step(old)
        k += 1
    return u


def by_fold(step: Step, u: Any, n: Any) -> Any:
    return pe.fold(lambda v, k: step(v), u, over=n)


def by_scan(step: Step, u: Any, n: Any) -> Any:
    last, _ = pe.scan(lambda v, k: (step(v), v), u, over=n)
    return last


def by_nested(step: Step, u: Any, n: Any) -> Any:
    for _ in range(1):
        for _ in range(n):
            u = step(u)
    return u


def by_tuple(step: Step, u: Any, n: Any) -> Any:
    state = (u, u)
    for _ in range(n):
        state = (step(state[0]), state[0])
    return state[0]


def by_record(step: Step, u: Any, n: Any) -> Any:
    state = {"u": u, "k": 0}
    for k in range(n):
        state = {"u": step(state["u"]), "k": k}
    return state["u"]


def by_list(step: Step, u: Any, n: Any) -> Any:
    both = [u, u]
    for _ in range(n):
        both = [step(v) for v in both]
    return both[1]


def by_buffers(step: Step, u: Any, n: Any) -> Any:
    v = u
    for _ in range(n):
        v = step(u)
        u, v = v, u
    return u


def by_states(step: Step, x: Any, n: Any) -> Any:
    u, v = pe.state(x), pe.state(x)
    for _ in range(n):
        v[:] = step(u.get())
        u, v = v, u
    return u


def by_break(step: Step, u: Any, n: Any) -> Any:
    k = 0
    for k in range(n + 5):
        if k == n:
            break
        u = step(u)
    return u


def by_branch(step: Step, u: Any, n: Any) -> Any:
    for k in range(2 * n):
        if k % 2 == 0:  # noqa: SIM108
            u = step(u)
        else:
            u = u[: len(u)]
    return u


FORMS: list[Form] = [
    by_for, by_while, by_fold, by_scan, by_nested, by_tuple, by_record, by_list, by_buffers,
    by_states, by_break, by_branch,
]  # fmt: skip


def repeated(step: Step, u: Any, n: int) -> Any:
    """The reference."""
    for _ in range(n):
        u = step(u)
    return u


def numbers(size: int) -> Any:
    """Different numbers, none a kink of a step."""
    return np.random.default_rng(size).uniform(0.1, 2.0, size)


@pytest.mark.parametrize("name", STEPS)
def test_spelling_in_a_loop_is_numpy_s(name: str) -> None:
    spelling = STEPS[name]
    for size in (0, 1, 2, 3, 6):
        if size >= spelling.least:
            u = numbers(size)
            expected = repeated(spelling.reference, u, 2)
            found = run(lambda u, n: by_for(spelling.step, u, n), u, 2)
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
            assert found.shape == u.shape


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("rounds", [0, 3])
def test_form_of_loop_repeats_the_step(form: Form, rounds: int) -> None:
    u = numbers(5)
    for name in ("around", "ends", "table over shape"):
        spelling = STEPS[name]
        expected = repeated(spelling.reference, u, rounds)
        found = run(lambda u, n, s=spelling: form(s.step, u, n), u, rounds)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def at_an_if(u: Any, steps: Any, n: Any) -> Any:
    for k in range(n):
        if k % 2 == 0:  # noqa: SIM108
            u = steps[0](u)
        else:
            u = steps[1](u)
    return u


@settings(max_examples=25 if settings().max_examples <= 100 else 1000, deadline=None)
@given(
    st.sampled_from(sorted(STEPS)),
    st.sampled_from(sorted(STEPS)),
    st.sampled_from(FORMS),
    st.integers(0, 9),
    st.integers(0, 3),
)
def test_random_spelling_in_a_random_loop(
    first: str, second: str, form: Form, size: int, rounds: int
) -> None:
    one, two = STEPS[first], STEPS[second]
    u = numbers(max(size, one.least, two.least))
    expected = repeated(lambda u: two.reference(one.reference(u)), u, rounds)
    found = run(lambda u, n: form(lambda v: two.step(one.step(v)), u, n), u, rounds)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


COMPILED = ["around", "ends", "table over shape", "state", "sum of a slice", "gradient, steep"]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_spelling_and_its_gradient(name: str) -> None:
    spelling = STEPS[name]

    def program(u: Any) -> Any:
        return by_for(spelling.step, u, 3)

    for size in (7, 2000):
        expected = repeated(spelling.reference, numbers(size), 3)
        np.testing.assert_allclose(pe.kernel(program)(numbers(size)), expected, rtol=1e-12)
    check_grads(lambda u: np.sum(program(u) ** 2), (numbers(7),))


@pytest.mark.parametrize("name", sorted(set(STEPS) - set(COMPILED)))
def test_gradient_of_every_spelling(name: str) -> None:
    spelling = STEPS[name]
    check_slope(
        lambda u: by_for(spelling.step, u, 2),
        lambda u: repeated(spelling.reference, u, 2),
        numbers(7),
    )


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_gradient_of_every_form(form: Form) -> None:
    ends = STEPS["ends"]
    check_slope(
        lambda u: form(ends.step, u, 3), lambda u: repeated(ends.reference, u, 3), numbers(6)
    )


# --- more axes -----------------------------------------------------------------------------------


def plate(u: Any, n: Any) -> Any:
    for _ in range(n):
        p = np.pad(u, 1, mode="edge")
        u = u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
        u = np.concatenate([u[:, :1], u[:, 1:]], axis=1)[::-1, ::-1]
    return u


def torus(u: Any, n: Any) -> Any:
    for _ in range(n):
        u = u + 0.1 * sum(np.roll(u, s, axis=k) - u for k in (0, 1, 2) for s in (-1, 1))
    return u


def rows(u: Any, n: Any) -> Any:
    for _ in range(n):
        u = np.stack([np.concatenate([row[1:], row[:1]]) for row in (u[0], u[1])])
    return u


def slopes(u: Any, n: Any) -> Any:
    for _ in range(n):
        gx, gy = np.gradient(u, 0.5)
        u = u - 0.1 * np.sqrt(gx**2 + gy**2 + 0.01)
    return u


@pytest.mark.parametrize(
    ("function", "shape"),
    [(plate, (4, 3)), (plate, (1, 1)), (torus, (3, 2, 4)), (rows, (2, 3)), (slopes, (3, 4))],
)
def test_stencil_with_several_axes(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    u = np.random.default_rng(3).uniform(size=shape)
    np.testing.assert_allclose(run(function, u, 3), function(u, 3), rtol=1e-12)
    check_slope(lambda u: function(u, 2), lambda u: function(u, 2), u)


def on_a_state(x: Any, n: Any) -> Any:
    u = pe.state(x)
    for _ in range(n):
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        u[:, 0] = 1.0
        u[-1] = u[0]
        u[1:3, ::2] = np.arange(2.0)[:, None]
        u[..., -1] -= u[..., 1]
    return u


def on_an_array(x: Any, n: int) -> Any:
    u = x.copy()
    for _ in range(n):
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        u[:, 0] = 1.0
        u[-1] = u[0].copy()
        u[1:3, ::2] = np.arange(2.0)[:, None]
        u[..., -1] -= u[..., 1]
    return u


def test_slices_of_a_state_with_two_axes() -> None:
    x = np.random.default_rng(5).uniform(size=(5, 6))
    np.testing.assert_allclose(check(on_a_state, x, 3), on_an_array(x, 3), rtol=1e-13)
    check_grads(lambda x: np.sum(on_a_state(x, 2).get() ** 2), (x,))


# --- slices of rows ------------------------------------------------------------------------------

M = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda m, k: pe.table(lambda i: pe.sum(m[i, :3])), M[:, :3].sum(1)),
        (lambda m, k: pe.table(lambda i: pe.sum(m[i][:3])), M[:, :3].sum(1)),
        (lambda m, k: pe.table(lambda i: m[i, 1 : k + 1]), M[:, 1:3]),
        (lambda m, k: pe.table(lambda i: m[i, k : k + 2]), M[:, 2:4]),
        (lambda m, k: pe.table(lambda i: m[i][::-1][:k]), M[:, ::-1][:, :2]),
        (lambda m, k: pe.table(lambda i: np.concatenate([m[i, :k], m[i, k:]])), M),
        (lambda m, k: pe.table(lambda i: np.zeros(m.shape[1] + k), over=3), np.zeros((3, 6))),
        (lambda m, k: pe.table(lambda i: pe.sum(m[i, i : i + k])), [1.0, 11.0, 21.0]),
        (lambda m, k: pe.table(lambda i: pe.sum(m[i, :i])), [0.0, 4.0, 17.0]),
        (
            lambda m, k: pe.table(lambda i: pe.table(lambda j: m[i, j + 1], over=len(m[i]) - 1)),
            M[:, 1:],
        ),
    ],
)
def test_slices_of_rows(function: Callable[..., Any], expected: Any) -> None:
    np.testing.assert_array_equal(run(function, M, 2), expected)


def test_a_negative_size_is_told_where_it_is_asked_for() -> None:
    def f(x: Any, n: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: 1.0, over=len(x) - n), over=2)

    assert run(f, np.ones(3), 1).shape == (2, 2)
    with pytest.raises(PeffectsError, match="the size -1 of an index set is negative"):
        run(f, np.ones(3), 4)


def test_sides_of_an_if_have_tables_of_computed_sizes() -> None:
    def f(x: Any, c: Any) -> Any:
        if c > 0:  # noqa: SIM108
            y = np.zeros(len(x) + 1)
        else:
            y = np.append(x, c)
        return y

    assert run(f, np.ones(2), 1).tolist() == [0.0, 0.0, 0.0]
    assert run(f, np.ones(2), 0).tolist() == [1.0, 1.0, 0.0]
