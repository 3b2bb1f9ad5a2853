"""Staging for tests: `pe` as users see it, and `run`, which evaluates a staged kernel."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from peffects.errors import PeffectsError
from peffects.ir.check import check_program
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.parallel.index_sets.index_set import Fin
from peffects.staging.loops import ops
from peffects.staging.scalars import maths
from peffects.staging.stage import Staged, stage

pe: Any = SimpleNamespace(
    Fin=Fin,
    **{name: getattr(ops, name) for name in ops.__all__},
    **{name: getattr(maths, name) for name in maths.__all__},
)


def staged(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Staged:
    """The staged function; its program is well-formed."""
    result = stage(function, args, kwargs)
    check_program(result.program, "staging")
    return result


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the staged function gives, by the reference evaluator."""
    made = staged(function, *args, **kwargs)
    return call(made, *args, **kwargs)


def call(made: Staged, *args: Any, **kwargs: Any) -> Any:
    """What a staged function gives for these arguments, which must fit it."""
    values = made.arguments(args, kwargs)
    assert values is not None, "the program does not fit this call"
    return made.results(evaluate(made.program, values))


def text(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The IR of the staged function."""
    return print_program(staged(function, *args, **kwargs).program)


def check_refused(
    error: type[PeffectsError], function: Callable[..., Any], args: tuple[Any, ...], *words: str
) -> None:
    """Running `function` raises `error` at the line marked `# here`; the message has `words`."""
    with pytest.raises(error) as caught:
        run(function, *args)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "# here" in caught.value.at.snippet(), message
    assert caught.value.fix
