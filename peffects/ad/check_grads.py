"""`check_grads`: forward mode against finite differences, reverse mode against forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peffects.ad.api import grad, jvp, vjp
from peffects.errors import DerivativeArgumentError, GradientMismatchError
from peffects.kernels.kernel import Kernel
from peffects.machine.checking.locations import users_frames
from peffects.source import caller
from peffects.staging.structures.trees import flatten, map_leaves, unflatten


@users_frames
def check_grads(
    function: Callable[..., object],
    args: tuple[object, ...],
    *,
    order: int = 1,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    step: float = 1e-6,
    seed: int = 0,
) -> None:
    """Raise GradientMismatchError unless the derivatives of `function` at `args` are right.

    Along one random direction, forward mode must equal the central difference of width `step`, and
    against one random cotangent, reverse mode must equal forward mode (to 1e-10).  With `order` 2
    the same is asked of the gradient; `function` must then give one float.  Tolerances are
    relative to the derivative's size; check away from kinks, where differences mean something, and
    in float64.
    """
    rng = np.random.default_rng(seed)
    tangents = tuple(map_leaves(lambda leaf: _direction(leaf, rng), arg) for arg in args)
    value, forward = jvp(function, args, tangents)
    _check_differences(function, args, tangents, forward, step, rtol, atol)
    cotangent = map_leaves(lambda leaf: _direction(leaf, rng), value)
    pulled = vjp(function, *args)[1](cotangent)
    left, right = _inner(cotangent, forward), _inner(pulled, tangents)
    scale = _size(cotangent, forward) + _size(pulled, tangents)
    if not abs(left - right) <= 1e-10 * scale + 1e-13:
        raise GradientMismatchError(
            f"reverse mode gives {right:.17g}, forward mode {left:.17g}, for the same derivative.",
            at=caller(),
            fix="A custom rule is not linear in its tangent, or this is a bug of peffects.",
        )
    if order > 1:
        if np.ndim(value) or isinstance(value, list | tuple | dict):  # type: ignore[arg-type]
            raise DerivativeArgumentError(
                "order 2 was asked for of a function that gives more than one float.",
                at=caller(),
                fix="Reduce its value to one float.",
            )
        floats = tuple(k for k, arg in enumerate(args) if _has_floats(arg))
        check_grads(
            grad(function, floats), args,
            order=order - 1, rtol=10 * rtol, atol=10 * atol, step=step, seed=seed + 1,
        )  # fmt: skip


def _check_differences(
    function: Callable[..., object],
    args: tuple[object, ...],
    tangents: tuple[object, ...],
    forward: object,
    step: float,
    rtol: float,
    atol: float,
) -> None:
    run = function if isinstance(function, Kernel) else Kernel(function)
    up, down = (
        flatten(run(*(_moved(a, t, sign * step) for a, t in zip(args, tangents, strict=True))))[0]
        for sign in (1.0, -1.0)
    )
    for above, below, tangent in zip(up, down, flatten(forward)[0], strict=True):
        if not _is_float(above):
            continue
        difference = (np.asarray(above) - np.asarray(below)) / (2.0 * step)
        error = np.max(np.abs(difference - np.asarray(tangent)), initial=0.0)
        allowed = rtol * max(1.0, float(np.max(np.abs(difference), initial=0.0))) + atol
        if not error <= allowed:
            raise GradientMismatchError(
                f"forward mode differs from central differences by {error:.3g}, "
                f"where {allowed:.3g} is allowed.",
                at=caller(),
                fix="Is the function smooth here, and are its values of ordinary size?",
            )


def _is_float(leaf: object) -> bool:
    return isinstance(leaf, float) or (
        isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind == "f"
    )


def _has_floats(arg: object) -> bool:
    return any(map(_is_float, flatten(arg)[0]))


def _direction(leaf: object, rng: np.random.Generator) -> object:
    if not _is_float(leaf):
        return leaf
    array: NDArray[Any] = np.asarray(leaf)
    drawn = rng.standard_normal(array.shape).astype(array.dtype)
    return drawn if isinstance(leaf, np.ndarray) else drawn[()]


def _moved(arg: object, tangent: object, by: float) -> object:
    leaves, tree = flatten(arg)
    moved = [
        leaf + by * t if _is_float(leaf) else leaf  # type: ignore[operator]
        for leaf, t in zip(leaves, flatten(tangent)[0], strict=True)
    ]
    return unflatten(tree, moved)


def _products(left: object, right: object) -> list[NDArray[Any]]:
    """The elementwise products of the float leaves of two trees."""
    both = zip(flatten(left)[0], flatten(right)[0], strict=True)
    return [np.asarray(x) * np.asarray(y) for x, y in both if _is_float(x) and _is_float(y)]


def _inner(left: object, right: object) -> float:
    return float(sum(np.sum(product) for product in _products(left, right)))


def _size(left: object, right: object) -> float:
    """The sum of the terms' absolute values: what rounding errors are relative to."""
    return float(sum(np.sum(np.abs(product)) for product in _products(left, right)))
