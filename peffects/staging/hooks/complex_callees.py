"""What is called in place of `complex` and the functions of `cmath`.

The functions of `cmath` give complex numbers of real ones, too: the root of -1 is 1j, not nan.
"""

from __future__ import annotations

import cmath
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from peffects.ir import primitives as prims
from peffects.staging.scalars import maths
from peffects.staging.scalars.symbols import binary, conjugate, is_complex, lift, unary
from peffects.staging.structures.complex_numbers import (
    as_complex,
    imaginary_part,
    of_type,
    phase,
    real_part,
)

__all__ = ["COMPLEX_CALLEES"]

Function = Callable[..., object]
_ABSENT = object()


def _of_complex(function: Function) -> Function:
    return lambda z: function(as_complex(z))


def _log(z: object, base: object = None) -> object:
    found = maths.log(as_complex(z))
    return found if base is None else binary(prims.DIV, found, maths.log(as_complex(base)))


def _complex(real: Any = 0.0, imag: Any = _ABSENT) -> object:
    if imag is _ABSENT:
        return as_complex(real)
    if not is_complex(imag):
        lift(imag, "the imaginary part")  # None is no number here
    return as_complex(real, imag)


def _polar(z: Any) -> tuple[object, object]:
    of = as_complex(z)
    return unary(prims.ABS, of), phase(of)


def _rect(r: Any, phi: Any) -> object:
    along, across = maths.cos(phi), maths.sin(phi)
    return as_complex(binary(prims.MUL, r, along), binary(prims.MUL, r, across))


COMPLEX_CALLEES: dict[object, Function] = {
    complex: _complex,
    np.complex128: functools.partial(of_type, np.float64),
    np.complex64: functools.partial(of_type, np.float32),
    cmath.exp: _of_complex(maths.exp), cmath.log: _log, cmath.sqrt: _of_complex(maths.sqrt),
    cmath.sin: _of_complex(maths.sin), cmath.cos: _of_complex(maths.cos),
    cmath.tan: _of_complex(maths.tan), cmath.sinh: _of_complex(maths.sinh),
    cmath.cosh: _of_complex(maths.cosh), cmath.tanh: _of_complex(maths.tanh),
    cmath.phase: phase, cmath.polar: _polar, cmath.rect: _rect,
    cmath.isnan: maths.isnan, cmath.isfinite: maths.isfinite,
    np.conjugate: conjugate, np.real: real_part, np.imag: imaginary_part, np.angle: phase,
}  # fmt: skip
