"""Typed effects, parallel loops, compiled kernels, and derivatives of all of them.

Effects and handlers: `effectful`, `handle`, `run`, `pfor`; the standard effects are in
`peffects.handlers`.  Kernels: `kernel`, `table`, `sum`, `par`, `accumulator`.  Derivatives: `grad`,
`vjp`, `jvp`.  A look inside: `explain`.  Names are loaded when they are first used, so importing
peffects costs next to nothing.
"""

from __future__ import annotations

import importlib as _importlib
import itertools as _itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peffects import ad, handlers, linalg, parallel, random
    from peffects.ad.api import grad, hvp, jvp, linearize, transpose, value_and_grad, vjp
    from peffects.ad.check_grads import check_grads
    from peffects.awaiting import Async, await_
    from peffects.clauses import final, multi
    from peffects.codegen.driver import set_threads, threads
    from peffects.codegen.launcher import launch_options
    from peffects.debugging import debug_checks
    from peffects.effects import Eff, Effect, Operation, Par, effectful, once, shared
    from peffects.errors import NeverPerformed, PeffectsError
    from peffects.explanation import explain
    from peffects.handlers.throw import Err, Ok
    from peffects.handling import (
        BasicHandler,
        CollectHandler,
        Handler,
        ParHandler,
        SplitHandler,
        handle,
        handler,
    )
    from peffects.kernels import Kernel, kernel
    from peffects.loops import Loop
    from peffects.masking import mask
    from peffects.parallel.dependent import (
        Above,
        Below,
        From,
        Ragged,
        Upto,
        inject,
        tile,
    )
    from peffects.parallel.index_set import Fin, Idx
    from peffects.parallel.packed import (
        Packed,
        pack,
        ragged,
    )
    from peffects.parallel.pfor import pfor
    from peffects.parallel.running import run
    from peffects.parallel.structures import (
        Bool,
        Elements,
        Maybe,
        Post,
        Unit,
        index_set,
        match,
    )
    from peffects.parallel.table import Table
    from peffects.parallel.tasks import run_async
    from peffects.pickling import pickled, unpickled
    from peffects.resumption import Resumption
    from peffects.staging.checks import check
    from peffects.staging.folds import (
        cummax,
        cummin,
        cumprod,
        cumsum,
        fold,
        reduce,
        scan,
    )
    from peffects.staging.lazy import view
    from peffects.staging.lists import (
        arg_filter,
        list_accumulator,
    )
    from peffects.staging.lists import filter as filter
    from peffects.staging.maths import (
        arccos,
        arccosh,
        arcsin,
        arcsinh,
        arctan,
        arctan2,
        arctanh,
        bit_count,
        cbrt,
        ceil,
        copysign,
        cos,
        cosh,
        degrees,
        digamma,
        erf,
        erfc,
        exp,
        exp2,
        expit,
        expm1,
        floor,
        fmax,
        fmin,
        fmod,
        frexp,
        gamma,
        gcd,
        heaviside,
        hypot,
        isfinite,
        isinf,
        isnan,
        isqrt,
        lcm,
        ldexp,
        lgamma,
        log,
        log1p,
        log2,
        log10,
        logaddexp,
        maximum,
        minimum,
        modf,
        nextafter,
        radians,
        rint,
        sign,
        signbit,
        sin,
        sinc,
        sinh,
        softplus,
        spacing,
        sqrt,
        tan,
        tanh,
        trigamma,
        trunc,
    )
    from peffects.staging.ops import (
        accumulator,
        argmax,
        argmin,
        each,
        logsumexp,
        mean,
        par,
        prod,
        stop_gradient,
        table,
        unchecked,
        where,
    )
    from peffects.staging.ops import all as all
    from peffects.staging.ops import any as any
    from peffects.staging.ops import max as max
    from peffects.staging.ops import min as min
    from peffects.staging.ops import sum as sum
    from peffects.staging.sorting import argsort, median, quantile, searchsorted, sort
    from peffects.staging.states import (
        state,
    )
    from peffects.staging.static_values import static
    from peffects.staging.types import Array

__version__ = "0.1.0"

# What `from peffects import *` brings: not the names of Python's own functions (`pe.sum`, `pe.max`,
# ..), which are public too but would take those away.
__all__ = [
    "Above",
    "Array",
    "Async",
    "BasicHandler",
    "Below",
    "Bool",
    "CollectHandler",
    "Eff",
    "Effect",
    "Elements",
    "Err",
    "Fin",
    "From",
    "Handler",
    "Idx",
    "Kernel",
    "Loop",
    "Maybe",
    "NeverPerformed",
    "Ok",
    "Operation",
    "Packed",
    "Par",
    "ParHandler",
    "PeffectsError",
    "Post",
    "Ragged",
    "Resumption",
    "SplitHandler",
    "Table",
    "Unit",
    "Upto",
    "accumulator",
    "ad",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "arg_filter",
    "argmax",
    "argmin",
    "argsort",
    "await_",
    "bit_count",
    "cbrt",
    "ceil",
    "check",
    "check_grads",
    "copysign",
    "cos",
    "cosh",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "debug_checks",
    "degrees",
    "digamma",
    "each",
    "effectful",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expit",
    "explain",
    "expm1",
    "final",
    "floor",
    "fmax",
    "fmin",
    "fmod",
    "fold",
    "frexp",
    "gamma",
    "gcd",
    "grad",
    "handle",
    "handler",
    "handlers",
    "heaviside",
    "hvp",
    "hypot",
    "index_set",
    "inject",
    "isfinite",
    "isinf",
    "isnan",
    "isqrt",
    "jvp",
    "kernel",
    "launch_options",
    "lcm",
    "ldexp",
    "lgamma",
    "linalg",
    "linearize",
    "list_accumulator",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logsumexp",
    "mask",
    "match",
    "maximum",
    "mean",
    "median",
    "minimum",
    "modf",
    "multi",
    "nextafter",
    "once",
    "pack",
    "par",
    "parallel",
    "pfor",
    "pickled",
    "prod",
    "quantile",
    "radians",
    "ragged",
    "random",
    "reduce",
    "rint",
    "run",
    "run_async",
    "scan",
    "searchsorted",
    "set_threads",
    "shared",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "softplus",
    "sort",
    "spacing",
    "sqrt",
    "state",
    "static",
    "stop_gradient",
    "table",
    "tan",
    "tanh",
    "threads",
    "tile",
    "transpose",
    "trigamma",
    "trunc",
    "unchecked",
    "unpickled",
    "value_and_grad",
    "view",
    "vjp",
    "where",
]

_HOMES = {
    "ad.api": (
        "grad",
        "hvp",
        "jvp",
        "linearize",
        "transpose",
        "value_and_grad",
        "vjp",
    ),
    "ad.check_grads": ("check_grads",),
    "awaiting": (
        "Async",
        "await_",
    ),
    "clauses": (
        "final",
        "multi",
    ),
    "codegen.driver": (
        "set_threads",
        "threads",
    ),
    "codegen.launcher": ("launch_options",),
    "debugging": ("debug_checks",),
    "effects": (
        "Eff",
        "Effect",
        "Operation",
        "Par",
        "effectful",
        "once",
        "shared",
    ),
    "errors": (
        "NeverPerformed",
        "PeffectsError",
    ),
    "explanation": ("explain",),
    "handling": (
        "BasicHandler",
        "CollectHandler",
        "Handler",
        "ParHandler",
        "SplitHandler",
        "handle",
        "handler",
    ),
    "handlers.throw": (
        "Err",
        "Ok",
    ),
    "kernels": (
        "Kernel",
        "kernel",
    ),
    "loops": ("Loop",),
    "masking": ("mask",),
    "parallel.index_set": (
        "Fin",
        "Idx",
    ),
    "parallel.dependent": (
        "Above",
        "Below",
        "From",
        "Ragged",
        "Upto",
        "inject",
        "tile",
    ),
    "parallel.packed": (
        "Packed",
        "pack",
        "ragged",
    ),
    "parallel.structures": (
        "Bool",
        "Elements",
        "Maybe",
        "Post",
        "Unit",
        "index_set",
        "match",
    ),
    "parallel.pfor": ("pfor",),
    "parallel.running": ("run",),
    "parallel.tasks": ("run_async",),
    "pickling": (
        "pickled",
        "unpickled",
    ),
    "parallel.table": ("Table",),
    "resumption": ("Resumption",),
    "staging.folds": (
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "fold",
        "reduce",
        "scan",
    ),
    "staging.checks": ("check",),
    "staging.lazy": ("view",),
    "staging.lists": (
        "arg_filter",
        "filter",
        "list_accumulator",
    ),
    "staging.maths": (
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctan2",
        "arctanh",
        "bit_count",
        "cbrt",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "degrees",
        "digamma",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expit",
        "expm1",
        "floor",
        "fmax",
        "fmin",
        "fmod",
        "frexp",
        "gamma",
        "gcd",
        "heaviside",
        "hypot",
        "isfinite",
        "isinf",
        "isnan",
        "isqrt",
        "lcm",
        "ldexp",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "logaddexp",
        "maximum",
        "minimum",
        "modf",
        "nextafter",
        "radians",
        "rint",
        "sign",
        "signbit",
        "sin",
        "sinc",
        "sinh",
        "softplus",
        "spacing",
        "sqrt",
        "tan",
        "tanh",
        "trigamma",
        "trunc",
    ),
    "staging.ops": (
        "accumulator",
        "all",
        "any",
        "argmax",
        "argmin",
        "each",
        "logsumexp",
        "max",
        "mean",
        "min",
        "par",
        "prod",
        "stop_gradient",
        "sum",
        "table",
        "unchecked",
        "where",
    ),
    "staging.states": ("state",),
    "staging.static_values": ("static",),
    "staging.types": ("Array",),
    "staging.sorting": (
        "argsort",
        "median",
        "quantile",
        "searchsorted",
        "sort",
    ),
}


_MODULES = ("ad", "handlers", "linalg", "parallel", "random")


def __getattr__(name: str) -> object:
    """Load a public name from its home, the first time that it is used."""
    if name in _MODULES:
        return _importlib.import_module(f"peffects.{name}")
    for home, names in _HOMES.items():
        if name in names:
            if home.startswith("staging."):  # outside a kernel, a loop operation is one of its own
                _importlib.import_module("peffects.kernels")
            value: object = getattr(_importlib.import_module(f"peffects.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'peffects' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_itertools.chain(*_HOMES.values())})
