"""Derivatives of kernels and of functions that can be kernels.

`grad` and `value_and_grad` for a number that depends on arrays, `vjp` and `jvp` for anything,
`linearize` and `transpose` beneath them, `hvp` for second derivatives, `check_grads` to trust
nobody.  All take the function first and give functions, or values and functions, of the same
arguments.
"""

from peffects.ad.api import (
    grad,
    hvp,
    jvp,
    linearize,
    transpose,
    value_and_grad,
    vjp,
)
from peffects.ad.check_grads import check_grads

__all__ = [
    "check_grads",
    "grad",
    "hvp",
    "jvp",
    "linearize",
    "transpose",
    "value_and_grad",
    "vjp",
]
