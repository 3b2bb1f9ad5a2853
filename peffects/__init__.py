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
    from peffects.codegen.launch.launcher import launch_options
    from peffects.codegen.launch.threads import set_threads, threads
    from peffects.errors import NeverPerformed, PeffectsError
    from peffects.handlers.throw import Err, Ok
    from peffects.inspection.explanation import explain
    from peffects.kernels.kernel import Kernel, kernel
    from peffects.machine.checking.debugging import debug_checks
    from peffects.machine.handling.awaiting import Async, await_
    from peffects.machine.handling.clauses import final, multi
    from peffects.machine.handling.handler import (
        BasicHandler,
        CollectHandler,
        Handler,
        ParHandler,
        SplitHandler,
        handle,
        handler,
    )
    from peffects.machine.handling.masking import mask
    from peffects.machine.handling.operations import (
        Eff,
        Effect,
        Operation,
        Par,
        effectful,
        once,
        shared,
    )
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption
    from peffects.machine.running.pickling import pickled, unpickled
    from peffects.parallel.index_sets.dependent import (
        Above,
        Below,
        From,
        Ragged,
        Upto,
        inject,
        tile,
    )
    from peffects.parallel.index_sets.index_set import Fin, Idx
    from peffects.parallel.index_sets.packed import (
        Packed,
        pack,
        ragged,
    )
    from peffects.parallel.index_sets.structures import (
        Bool,
        Elements,
        Maybe,
        Post,
        Unit,
        index_set,
        match,
    )
    from peffects.parallel.pfor import pfor
    from peffects.parallel.running import run
    from peffects.parallel.table import Table
    from peffects.parallel.tasks import run_async
    from peffects.staging.arrays.sorting import argsort, median, quantile, searchsorted, sort
    from peffects.staging.hooks.states import (
        state,
    )
    from peffects.staging.loops.checks import check
    from peffects.staging.loops.folds import (
        cummax,
        cummin,
        cumprod,
        cumsum,
        fold,
        reduce,
        scan,
    )
    from peffects.staging.loops.lazy import view
    from peffects.staging.loops.lists import (
        arg_filter,
        list_accumulator,
    )
    from peffects.staging.loops.lists import filter as filter
    from peffects.staging.loops.ops import (
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
    from peffects.staging.loops.ops import all as all
    from peffects.staging.loops.ops import any as any
    from peffects.staging.loops.ops import max as max
    from peffects.staging.loops.ops import min as min
    from peffects.staging.loops.ops import sum as sum
    from peffects.staging.scalars.maths import (
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
    from peffects.staging.scalars.static_values import static
    from peffects.staging.tracing.argument_types import Array

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
    "machine.handling.awaiting": (
        "Async",
        "await_",
    ),
    "machine.handling.clauses": (
        "final",
        "multi",
    ),
    "codegen.launch.threads": (
        "set_threads",
        "threads",
    ),
    "codegen.launch.launcher": ("launch_options",),
    "machine.checking.debugging": ("debug_checks",),
    "machine.handling.operations": (
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
    "inspection.explanation": ("explain",),
    "machine.handling.handler": (
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
    "kernels.kernel": (
        "Kernel",
        "kernel",
    ),
    "machine.resuming.parallel_for": ("Loop",),
    "machine.handling.masking": ("mask",),
    "parallel.index_sets.index_set": (
        "Fin",
        "Idx",
    ),
    "parallel.index_sets.dependent": (
        "Above",
        "Below",
        "From",
        "Ragged",
        "Upto",
        "inject",
        "tile",
    ),
    "parallel.index_sets.packed": (
        "Packed",
        "pack",
        "ragged",
    ),
    "parallel.index_sets.structures": (
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
    "machine.running.pickling": (
        "pickled",
        "unpickled",
    ),
    "parallel.table": ("Table",),
    "machine.resuming.resumption": ("Resumption",),
    "staging.loops.folds": (
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "fold",
        "reduce",
        "scan",
    ),
    "staging.loops.checks": ("check",),
    "staging.loops.lazy": ("view",),
    "staging.loops.lists": (
        "arg_filter",
        "filter",
        "list_accumulator",
    ),
    "staging.scalars.maths": (
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
    "staging.loops.ops": (
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
    "staging.hooks.states": ("state",),
    "staging.scalars.static_values": ("static",),
    "staging.tracing.argument_types": ("Array",),
    "staging.arrays.sorting": (
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
                _importlib.import_module("peffects.kernels.kernel")
            value: object = getattr(_importlib.import_module(f"peffects.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'peffects' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_itertools.chain(*_HOMES.values())})
