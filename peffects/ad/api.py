"""The derivative API: what `peffects.ad` and `peffects` export.

Everything here takes a function that is a kernel or can be one, and makes a kernel of its
derivative (`derivatives.py`).  Gradients have the structure of the arguments: arrays for arrays,
dicts for dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast, overload

import numpy as np

from peffects.ad.derivatives import Argnums, backward, forward, gradient
from peffects.errors import DerivativeArgumentError
from peffects.kernels.kernel import Kernel
from peffects.machine.checking.locations import users_frames
from peffects.source import caller
from peffects.staging.structures.trees import map_leaves

P = ParamSpec("P")
R = TypeVar("R")


@overload
def grad(function: Callable[P, object], argnums: int = 0) -> Callable[P, Any]: ...
@overload
def grad(
    function: Callable[P, object], argnums: tuple[int, ...]
) -> Callable[P, tuple[Any, ...]]: ...
@users_frames
def grad(function: Callable[P, object], argnums: Argnums = 0) -> Callable[P, Any]:
    """The gradient of `function`, whose value is a float, with respect to the argument `argnums`.

    The result takes the arguments of `function` and gives the gradient in the structure of that
    argument; a tuple of argnums gives a tuple.  Reverse mode: a small constant times the work of
    `function`, in parallel where `function` is.

    Raises DerivativeArgumentError if `function` gives no single float or the argument has leaves
    that are no floats, NotDifferentiableError where there is no derivative.
    """
    return gradient(function, argnums, with_value=False, has_aux=False)


@users_frames
def value_and_grad(
    function: Callable[P, R], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[P, tuple[R, Any]]:
    """Like `grad`, and the value of `function` too, in one sweep: (value, gradient).

    With `has_aux`, `function` gives a pair of the number that is differentiated and anything else.
    """
    return gradient(function, argnums, with_value=True, has_aux=has_aux)


@users_frames
def jvp(
    function: Callable[..., R], args: tuple[object, ...], tangents: tuple[object, ...]
) -> tuple[R, R]:
    """The value at `args`, and the directional derivative along `tangents`: forward mode.

    Tangents have the structure, shapes and float types of the arguments; those of integers are
    ignored.
    """
    return cast(tuple[R, R], _forward(function)(_tuple(args, "args"), _tuple(tangents, "tangents")))


@users_frames
def vjp(function: Callable[..., R], *args: object) -> tuple[R, Callable[[Any], tuple[Any, ...]]]:
    """The value at `args`, and the pullback: from the value's cotangent to those of all arguments.

    The cotangent has the structure, shapes and float types of the value; those of arguments that
    are integers are None.  The pullback works on copies of the arguments, so changing an array in
    between changes nothing; it runs the function again, forward and reverse in one sweep.

    Raises DerivativeArgumentError for a cotangent that does not fit, NotDifferentiableError where
    there is no derivative.
    """
    value = _kernel(function)(*args)
    kept = _snapshot(args)

    @users_frames
    def pullback(cotangent: Any) -> tuple[Any, ...]:
        """The cotangents of the arguments."""
        return cast(tuple[Any, ...], _backward(function)(kept, cotangent))

    return cast(R, value), pullback


@users_frames
def linearize(function: Callable[..., R], *args: object) -> tuple[R, Callable[..., R]]:
    """The value at `args`, and the derivative there as a linear function of tangents.

    Call it with one tangent for each argument, as for `jvp`; it gives what `jvp` gives, a tangent
    of the value.  Raises DerivativeArgumentError for tangents that do not fit,
    NotDifferentiableError where there is no derivative.
    """
    value = _kernel(function)(*args)
    kept = _snapshot(args)

    @users_frames
    def derivative(*tangents: object) -> R:
        """The directional derivative along `tangents`."""
        return cast(R, _forward(function)(kept, tangents)[1])

    return cast(R, value), derivative


@users_frames
def transpose(function: Callable[..., object], *args: object) -> Callable[[Any], Any]:
    """The transpose of a function that is linear in its arguments.

    `args` say the shapes and types that `function` takes; their values do not matter.  The result
    maps a cotangent of the value to that of the argument, or to a tuple if there are several.

    Raises LinearityError, at the line, if `function` is not linear.
    """
    kept = _snapshot(args)

    @users_frames
    def transposed(cotangent: Any) -> Any:
        """The cotangents of the arguments."""
        found = _transposed(function)(kept, cotangent)
        return found[0] if len(kept) == 1 else found

    return transposed


@users_frames
def hvp(
    function: Callable[..., object], args: tuple[object, ...], tangents: tuple[object, ...]
) -> Any:
    """The second derivative of `function` along `tangents`: the Hessian times a vector.

    Forward over reverse; with respect to all arguments, so a tuple if there are several.
    """
    args = _tuple(args, "args")
    numbers: Argnums = 0 if len(args) == 1 else tuple(range(len(args)))
    return jvp(grad(function, numbers), args, tangents)[1]


# --- one kernel for each function, so that nothing is compiled twice -----------------------------


def _remember(
    role: str, function: Callable[..., object], make: Callable[[], Kernel[..., Any]]
) -> Kernel[..., Any]:
    """The kernel made for `function` before, if it can be told again."""
    try:
        known: dict[str, Kernel[..., Any]] = function.__dict__.setdefault("_pe_derivatives", {})
    except AttributeError:  # a bound method or a builtin: it has no attributes to remember by
        return make()
    if role not in known:
        known[role] = make()
    return known[role]


def _kernel(function: Callable[..., object]) -> Kernel[..., Any]:
    if isinstance(function, Kernel):
        return function
    return _remember("value", function, lambda: Kernel(function))


def _forward(function: Callable[..., object]) -> Kernel[..., Any]:
    return _remember("forward", function, lambda: forward(function))


def _backward(function: Callable[..., object]) -> Kernel[..., Any]:
    return _remember("backward", function, lambda: backward(function))


def _transposed(function: Callable[..., object]) -> Kernel[..., Any]:
    return _remember("transpose", function, lambda: backward(function, linear=True))


def _tuple(value: object, name: str) -> tuple[object, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    raise DerivativeArgumentError(
        f"{name} is {type(value).__name__}, not a tuple with one value for each argument.",
        at=caller(),
        fix="Write `pe.jvp(f, (x,), (dx,))`.",
    )


def _snapshot(args: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments with copies of their arrays."""
    return tuple(
        map_leaves(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, arg)
        for arg in args
    )
