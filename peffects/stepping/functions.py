"""Functions of numbers in a debugging run: they have the types and the errors of kernels.

Of floats numpy's functions, Python's and ours give what kernels give.  Of integers and bools they
do not: numpy has floats of 16 bits, and no sign of a bool.  There, and where Python's `math` takes
Python's numbers only, the function is staged, as it is for a kernel, and evaluated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peffects.errors import PeffectsError
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import Scalar, Table, Type
from peffects.ir.traverse import can_fail
from peffects.staging.hooks.python_maths import MATH
from peffects.staging.loops import ops
from peffects.staging.numpy_surface.ufuncs import UFUNCS
from peffects.staging.scalars import maths
from peffects.staging.stage import Signature, Staged, signature, stage
from peffects.staging.structures.trees import flatten, map_leaves
from peffects.staging.tracing.trace import here
from peffects.stepping.values import as_computed, computed_by, read

__all__ = ["functions_of_numbers"]

Function = Callable[..., Any]

_NUMBERS = (bool, int, float, np.generic, np.ndarray)
_PYTHONS = (np.bool_, np.int64, np.float64)
_OURS: tuple[Function, ...] = tuple(getattr(maths, name) for name in maths.__all__)
_OTHER_TYPES: tuple[Function, ...] = (maths.frexp,)
"""Those whose results have other types outside of kernels."""
_BY_LITERALS = ("power", "float_power")
"""What a kernel computes in other ways where the exponent is a literal."""


@functools.cache
def functions_of_numbers() -> dict[object, Function]:
    """What is called in place of functions of numbers: ours, numpy's and those of `math`."""
    numpys = [getattr(np, name) for name in UFUNCS if name not in _BY_LITERALS]
    found: dict[object, Function] = {f: _as_in_kernels(f, f, is_ufunc=True) for f in numpys}
    found |= {f: _as_in_kernels(f, f, is_ufunc=True) for f in (np.round, abs)}
    of_floats = {f: f for f in (*_OURS, ops.where) if f not in _OTHER_TYPES}
    found |= {f: _as_in_kernels(f, of_floats.get(f)) for f in (*_OURS, ops.where)}
    return found | {f: _as_in_kernels(f, of_floats.get(g)) for f, g in MATH.items()}


def _as_in_kernels(function: Function, of_floats: Function | None, is_ufunc: bool = False) -> Any:
    """`function`, of floats by way of `of_floats` if there is that."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **options: Any) -> Any:
        args = tuple(map(read, args))
        plain = functools.partial(computed_by, of_floats or function, args, options)
        if options or not args or not all(isinstance(arg, _NUMBERS) for arg in args):
            return plain()
        arrays = any(isinstance(arg, np.ndarray) for arg in args)
        if of_floats is not None and all(map(_is_float, args)) and (is_ufunc or not arrays):
            return plain()
        if is_ufunc and all(type(arg) is int for arg in args):  # a kernel asks numpy, too
            return plain()
        form = _form(function, signature(args, {}))
        return plain() if form is None else form.value(plain, args)

    return call


def _is_float(arg: Any) -> bool:
    return getattr(arg, "dtype", np.dtype(type(arg))).kind not in "biu"


@dataclass(frozen=True, slots=True)
class _Form:
    """How kernels compute a function of arguments of some types; whether that `may_fail`."""

    staged: Staged
    may_fail: bool

    def value(self, plain: Function, args: Sequence[Any]) -> Any:
        """What it gives; Python's and numpy's value, which is quick, where it is of its types."""
        if not self.may_fail and not any(isinstance(arg, bool) for arg in args):
            try:
                found = plain()
            except (TypeError, ValueError, ArithmeticError, PeffectsError):  # not for these
                return self.evaluated(args)
            results = self.staged.program.body.results
            wanted = [_elem(atom.type).dtype for atom in results]
            if [np.asarray(leaf).dtype.name for leaf in flatten(found)[0]] == wanted:
                return found
        return self.evaluated(args)

    def evaluated(self, args: Sequence[Any]) -> Any:
        """What it means; Python's numbers where all arguments are Python's."""
        values = self.staged.arguments(args, {})
        assert values is not None, "a program fits the call that it was staged for"
        try:
            found = self.staged.results(evaluate(self.staged.program, values))
        except PeffectsError as error:  # the program is that of an earlier call
            raise type(error)(error.what, at=here(), notes=error.notes, fix=error.fix) from None
        if any(isinstance(arg, np.generic | np.ndarray) for arg in args):
            return map_leaves(as_computed, found)
        return map_leaves(_pythons, found)


def _elem(t: Type) -> Scalar:
    found = t.elem if isinstance(t, Table) else t
    assert isinstance(found, Scalar), "programs give numbers and tables of numbers"
    return found


def _pythons(leaf: Any) -> Any:
    return as_computed(leaf.item()) if leaf.dtype in _PYTHONS else leaf


@functools.lru_cache(maxsize=512)
def _form(function: Function, call: Signature) -> _Form | None:
    """The kernel's form of a call; None where kernels refuse it, which Python need not do."""
    try:
        staged = stage(function, call.leaves)
    except PeffectsError:
        return None
    return _Form(staged, any(can_fail(binding.expr) for binding in staged.program.body.bindings))
