"""Derivatives that there are not: PE3xx.

The page of each, which `python -m peffects explain CODE` prints, is in `docs/errors`.
"""

from __future__ import annotations

from peffects.errors.base import PeffectsError


class NotDifferentiableError(PeffectsError):
    """A derivative was asked for through something that has none, or none that peffects knows.

    Wrong: the third derivative of the logarithm of the gamma function, which peffects has not.

        pe.grad(pe.grad(pe.grad(pe.lgamma)))(1.5)

    Right: take what is refused out of the differentiated part, or say that it counts as constant.

        pe.trigamma(pe.stop_gradient(x))
    """

    code = "PE301"


class LinearityError(PeffectsError):
    """A function that is declared linear is not: it spends a linear value non-linearly.

    Wrong: `pe.transpose(lambda x: x * x, ...)`: x is spent twice in one product.
    Right: `pe.transpose(lambda x: 2.0 * x, ...)`.
    """

    code = "PE302"


class GradientMismatchError(PeffectsError, AssertionError):
    """`check_grads` found that derivatives disagree with each other or with finite differences.

    It is raised at points where a function is not smooth, since differences mean nothing there.

    Wrong, at the kink of the absolute value:

        pe.check_grads(lambda x: x if x > 0.0 else 0.0, (0.0,))

    Right, away from it:

        pe.check_grads(lambda x: x if x > 0.0 else 0.0, (1.5,))
    """

    code = "PE303"


class DerivativeArgumentError(PeffectsError, TypeError):
    """A derivative was asked for with respect to an argument, or of a result, that cannot have one.

    Wrong: `pe.grad(f, argnums=2)(x, y)`; or the gradient of a function that returns an array.
    Right: `pe.grad(f, argnums=1)(x, y)`; for an array-valued f, `pe.vjp` or `pe.jvp`.
    """

    code = "PE304"
