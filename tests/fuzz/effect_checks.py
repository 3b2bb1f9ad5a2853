"""What a random effectful program has to keep: all ways of running it give what `Serial` gives."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fuzz.effect_programs import EffectProgram
from fuzz.kernel_checks import check_derivatives
from fuzz.sources import EndlessError, check_equal, check_polite, limited, load

import peffects as pe
from peffects import Fin, PeffectsError, run
from peffects.ir.check import check_program
from peffects.ir.evaluate import evaluate
from peffects.parallel import Executor, Processes, Serial, Shuffled, Threads
from peffects.staging.stage import Staged, stage

__all__ = ["check_effect_gradients", "check_executors", "check_staged", "executors"]

_ADDRESS = re.compile(r"0x[0-9a-f]+")
ARGUMENTS = [(0.3, 3), (-0.8, 2), (1.4, 0), (0.05, 4)]
X = np.array([0.1, -0.4, 0.9])


@dataclass(frozen=True)
class Raised:
    """What became of a program that has no value; two are equal if their codes are."""

    code: str
    error: BaseException = field(compare=False)


def outcome(program: Any, source: str, args: tuple[Any, ...], executor: Executor) -> Any:
    """What the machine gives: a value, or an error that is polite."""
    try:
        return run(program(*args), executor=executor)
    except Exception as error:
        return Raised(check_polite(error, source), error)


def check_staged(drawn: EffectProgram, native: bool = False) -> str:
    """Staged, the program gives what the machine gives; or a refusal, whose code is the result."""
    space = load(drawn.text)
    program, function = space["program"], space["kernel"]
    meant = {
        args: outcome(program, drawn.text, (*args, X), Serial())
        for s, n in ARGUMENTS
        for args in ((s, n), (s + 1e-3, n))
    }

    try:
        made = stage(function, (*ARGUMENTS[0], X))
    except Exception as error:
        code = check_polite(error, drawn.text)
        refused = isinstance(error, PeffectsError)
        alike = any(isinstance(m, Raised) and m.code == code for m in meant.values())
        assert refused or alike, "only the kernel raises"
        return code
    check_program(made.program, "staging")
    kernel = pe.kernel(function)
    for s, n in ARGUMENTS:
        ways: list[Callable[..., Any]] = [lambda *args: evaluated(made, args), kernel]
        for way in ways[: 2 if native else 1]:
            try:
                check_equal(attempted(way, drawn.text, s, n, X), meant[s, n])
            except AssertionError:  # a comparison of numbers that differ by rounding, or a fault
                check_equal(attempted(way, drawn.text, s + 1e-3, n, X), meant[s + 1e-3, n])
    return "staged"


def check_effect_gradients(drawn: EffectProgram) -> str:
    """Derivatives of a number that is made of the answer agree with each other."""
    kernel = pe.kernel(load(drawn.text)["total"])
    word = "smooth"
    for s, n in ARGUMENTS[:3]:
        word = check_derivatives(lambda s, x, n=n: kernel(s, n, x), (s, X), drawn.text)
    return word


def attempted(way: Callable[..., Any], source: str, *args: Any) -> Any:
    """What a kernel gives: a value, or an error that is polite."""
    try:
        return way(*args)
    except Exception as error:
        return Raised(check_polite(error, source), error)


def evaluated(made: Staged, args: tuple[Any, ...]) -> Any:
    """What a staged program means."""
    values = made.arguments(args, {})
    assert values is not None, "a program fits the call that it was staged for"
    return made.results(evaluate(made.program, values))


@contextlib.contextmanager
def executors(seed: int) -> Iterator[list[Executor]]:
    """Executors that differ from `Serial`."""
    with Processes(2, chunk=1) as processes:
        yield [Threads(2, chunk=1), Shuffled(seed), processes]


def told(computation: Any, source: str, executor: Executor, **options: Any) -> Any:
    """What the machine gives: a value, or all that is told of an error that is polite."""
    try:
        return run(computation, executor=executor, **options)
    except EndlessError:
        raise
    except Exception as error:
        check_polite(error, source)
        notes = [
            note for note in getattr(error, "__notes__", ()) if note.startswith("in iteration")
        ]
        return f"{type(error).__name__}: {_ADDRESS.sub('..', str(error))}", *notes


def check_executors(
    drawn: EffectProgram,
    others: list[Executor],
    arguments: Sequence[tuple[float, int]] = ARGUMENTS,
) -> str:
    """The machine gives the same on all executors, also for a parallel loop of the program.

    That is values and failures: class, text, place, iteration; with copies of answers, too.
    """
    program = load(drawn.text)["program"]

    def looped(s: Any, n: Any, x: Any) -> Any:
        return pe.pfor(Fin(n), lambda i: program(s + 0.5 * float(i), n, x))

    for s, n in arguments:
        for computation in (program, looped):
            try:
                with limited(1.0):
                    meant = told(computation(s, n, X), drawn.text, Serial())
            except EndlessError:
                return "too many worlds"
            for executor in others:
                found = told(computation(s, n, X), drawn.text, executor)
                check_equal(_plain(found), _plain(meant), 0.0)
            copied = told(computation(s, n, X), drawn.text, others[-1], copy_answers=copy.deepcopy)
            check_equal(_plain(copied), _plain(meant), 0.0)
    return "same"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, pe.Table) else value
