"""What a random kernel has to keep: one meaning on all ways, the same bits on any threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from compiled import assert_same
from fuzz.kernel_programs import KernelProgram, arguments
from fuzz.sources import check_polite, load

import peffects as pe
from peffects.ir.evaluate import evaluate
from peffects.kernels.kernel import Kernel
from peffects.staging.structures.trees import flatten

__all__ = ["check_derivatives", "check_gradients", "check_values"]

FLOATS = (0, 1, 2, 5)
GRADIENT_SIZES = ((5, 3), (2, 1), (0, 2))
SIZES = ((5, 3), (0, 2), (1, 1), (3, 0), (7, 2), (33, 2), (131, 5))


def attempted(call: Callable[[], Any], source: str) -> tuple[str, list[Any]]:
    """The leaves of a result, or the code of a polite error."""
    try:
        return "", [np.asarray(leaf) for leaf in flatten(call())[0]]
    except Exception as error:
        return check_polite(error, source), []


def check_values(drawn: KernelProgram, sizes: tuple[tuple[int, int], ...] = SIZES) -> str:
    """Compiled code on 1, 2, 4 threads, the evaluator and plain Python agree."""
    kernel = Kernel(load(drawn.text)["kernel"])
    code = ""
    least = 2 if "# two rows" in drawn.text else 0
    for rows, columns in ((rows, columns) for rows, columns in sizes if rows >= least):
        args = arguments(drawn, rows, columns)
        with pe.threads(1):
            code, found = attempted(lambda args=args: kernel(*args), drawn.text)  # type: ignore[misc]
        for threads in (2, 4):
            with pe.threads(threads):
                other, again = attempted(lambda args=args: kernel(*args), drawn.text)  # type: ignore[misc]
            assert other == code, f"{code or 'a value'} on 1 thread, {other} on {threads}"
            for left, right in zip(again, found, strict=True):
                assert_same(left, right, f"{threads} threads")
        # Plain Python learns index sets and types from iterations, so it needs one; both are slow.
        ways = [_evaluated] * (rows < 40) + [Kernel.debug] * (0 < rows * columns < 40)
        for way in ways:
            other, meant = attempted(lambda args=args, w=way: w(kernel, *args), drawn.text)  # type: ignore[misc]
            if code[:3] == "PE2":  # what staging refuses need not fail in plain Python
                continue
            assert other == code, f"native {code or 'a value'}, {way.__name__} {other or 'a value'}"
            for left, right in zip(found, meant, strict=True):
                assert left.dtype == right.dtype, f"{way.__name__}: {left.dtype}, {right.dtype}"
                np.testing.assert_allclose(
                    left, right, rtol=1e-10, atol=1e-10, err_msg=f"{way.__name__} {rows, columns}"
                )
    return code or "same"


def _evaluated(kernel: Any, *args: Any) -> Any:
    callee: Any = kernel.stage(args, {})
    values = callee.arguments(args, {})
    assert values is not None, "a program fits the call that it was staged for"
    return callee.results(evaluate(callee.program, values))


def inner(left: Any, right: Any) -> float:
    """The scalar product of two trees."""
    pairs = zip(flatten(left)[0], flatten(right)[0], strict=True)
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)) for x, y in pairs))


def check_gradients(drawn: KernelProgram) -> str:
    """Forward mode, reverse mode and differences of the first result agree, for all sizes."""
    plain = load(drawn.text)["kernel"]
    kernel = Kernel(lambda *args: plain(*args)[0])
    word = "smooth"
    for size in GRADIENT_SIZES:
        if size[0] < 2 and "# two rows" in drawn.text:
            continue
        args = arguments(drawn, *size)

        def of_floats(x: Any, y: Any, a: Any, z: Any, args: Any = args) -> Any:
            return kernel(x, y, a, args[3], args[4], z, args[6])

        word = check_derivatives(of_floats, tuple(args[k] for k in FLOATS), drawn.text)
    return word


def check_derivatives(of_floats: Callable[..., Any], moving: tuple[Any, ...], source: str) -> str:
    """Forward mode, reverse mode and differences of a number agree, at `moving`."""
    rng = np.random.default_rng(1)
    along_floats = tuple(rng.normal(size=np.shape(arg)) for arg in moving)
    code, meant = attempted(lambda: of_floats(*moving), source)
    try:
        value, forward = pe.jvp(of_floats, moving, along_floats)
        found, gradient = pe.value_and_grad(of_floats, tuple(range(len(moving))))(*moving)
    except Exception as error:
        refused = check_polite(error, source)
        # Of two faults that staging refuses, a derivative, whose `n` is known, may meet another.
        alike = code == refused or all(c[:3] in ("PE1", "PE2") for c in (code, refused))
        assert alike or refused in ("PE212", "PE301"), f"derivative: {error}"
        return refused
    if code[:3] in ("PE1", "PE2"):  # for any `n`, which is a constant of the derivative
        return code
    assert not code, f"only the derivative has a value: {code}"
    np.testing.assert_allclose([value, found], [*meant, *meant], rtol=1e-12, atol=1e-12)
    reverse = inner(gradient, along_floats)
    np.testing.assert_allclose(reverse, forward, rtol=1e-8, atol=1e-8, err_msg="vjp, jvp")

    def along(step: float) -> float:
        moved = [m + step * t for m, t in zip(moving, along_floats, strict=True)]
        return float(of_floats(*moved))

    wide, narrow = ((along(h) - along(-h)) / (2 * h) for h in (2e-6, 1e-6))
    sides = [(along(h) - along(0.0)) / h for h in (1e-6, -1e-6)]
    kink = abs(sides[0] - sides[1]) > 1e-4 * (1 + abs(narrow))
    if abs(wide - narrow) < 1e-5 * (1 + abs(narrow)) and not kink:
        np.testing.assert_allclose(forward, narrow, rtol=1e-3, atol=1e-3, err_msg="differences")
    return "smooth"
