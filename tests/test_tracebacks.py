"""Tracebacks of errors that leave peffects: the user's frames, and none of its own."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import InternalError, PeffectsError
from peffects.machine.checking.locations import show_users_frames, users_frames

HERE = __file__
X = np.ones(3)


def beyond(x: Any) -> Any:
    return pe.sum(lambda i: x[i + 1], over=len(x))


def raises(x: Any) -> Any:
    raise RuntimeError("of the user")


def refused(x: Any) -> Any:
    return x + "text"


KERNEL = pe.kernel(beyond)
FAST = pe.kernel(lambda x: pe.sum(lambda i: x[i])).lower(X).compile()


WAYS: dict[str, Callable[[], Any]] = {
    "a call": lambda: KERNEL(X),
    "staging": lambda: pe.kernel(refused)(X),
    "an error of the user": lambda: pe.kernel(raises)(X),
    "arguments that are missing": lambda: KERNEL(),  # type: ignore[call-overload]
    "an argument without a type": lambda: KERNEL(object()),
    "an operation that Python does not have": lambda: pe.kernel(lambda x: x + 1)(object()),
    "a call with too much": lambda: pe.kernel(lambda x: (lambda: 3)(x))(X),  # type: ignore[call-arg]
    "no function": lambda: pe.kernel(3),  # type: ignore[arg-type]
    "debug": lambda: KERNEL.debug(X),
    "debug of an error of the user": lambda: pe.kernel(raises).debug(X),
    "lower": lambda: pe.kernel(refused).lower(X),
    "a compiled call": lambda: FAST("text"),
    "explain": lambda: pe.explain(refused, X),
    "grad": lambda: pe.grad(beyond)(X),
    "grad of what gives no number": lambda: pe.grad(lambda x: x)(X),
    "grad of no function": lambda: pe.grad(3),  # type: ignore[call-overload]
    "value_and_grad": lambda: pe.value_and_grad(beyond)(X),
    "jvp": lambda: pe.jvp(beyond, (X,), (X,)),
    "jvp of no tuple": lambda: pe.jvp(beyond, X, (X,)),  # type: ignore[arg-type]
    "vjp": lambda: pe.vjp(beyond, X),
    "a pullback": lambda: pe.vjp(lambda x: pe.sum(x), X)[1]("text"),
    "linearize": lambda: pe.linearize(beyond, X),
    "a linear function": lambda: pe.linearize(lambda x: pe.sum(x), X)[1]("text"),
    "transpose": lambda: pe.transpose(lambda x: x * x, X)(X),
    "hvp": lambda: pe.hvp(beyond, (X,), (X,)),
    "check_grads": lambda: pe.check_grads(beyond, (X,)),
    "a loop outside of a kernel": lambda: pe.table(lambda i: X[i + 1], over=3),
    "a sum outside of a kernel": lambda: pe.sum(lambda i: refused(X[i]), over=3),
    "a function on tables": lambda: pe.sum("text"),
    "a fold": lambda: pe.fold(lambda s, i: s + "t", 0.0, over=3),
    "an effectful program": lambda: pe.run(pe.pfor(pe.Fin(3), raises)),
}


def frames(error: BaseException) -> list[str]:
    """The files of a traceback, those of its causes too."""
    found = [entry.filename for entry in traceback.extract_tb(error.__traceback__)]
    for other in (error.__cause__, error.__context__):
        if other is not None:
            found += frames(other)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_every_way_out_shows_users_frames(way: str) -> None:
    with pytest.raises(Exception) as caught:
        WAYS[way]()
    files = frames(caught.value)
    assert {file for file in files if file != HERE} == set(), files
    assert files
    assert not isinstance(caught.value, InternalError)
    is_users = isinstance(caught.value, RuntimeError | TypeError)
    assert is_users or isinstance(caught.value, PeffectsError), repr(caught.value)


def test_a_second_call_shows_no_more() -> None:
    kernel = pe.kernel(beyond)
    for _ in range(3):
        with pytest.raises(PeffectsError) as caught:
            kernel(X)
        assert set(frames(caught.value)) == {HERE}


def test_users_frames_between_ours_stay() -> None:
    def inner(x: Any) -> Any:
        raise ValueError("deep")

    def outer(x: Any) -> Any:
        return pe.table(lambda i: inner(x[i]))

    with pytest.raises(ValueError, match="deep") as caught:
        pe.kernel(outer)(X)
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-3:] == ["outer", "<lambda>", "inner"]


def test_a_fault_of_ours_keeps_its_frames() -> None:
    """Somebody has to find it: errors that peffects did not mean to raise show where."""
    for error in (InternalError("at fault"), KeyError("at fault")):
        with pytest.raises(type(error)) as caught:
            _in_our_file(error)
        assert "<ours>" in [
            entry.name for entry in traceback.extract_tb(caught.value.__traceback__)
        ]


def _in_our_file(error: Exception) -> None:
    """Raise `error` in a frame of peffects, below one that shows users' frames."""
    code = compile("def ours(error): raise error", pe.__file__, "exec")
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    ours = namespace["ours"]
    ours.__code__ = ours.__code__.replace(co_name="<ours>")
    users_frames(ours)(error)


def test_chains_and_circles_of_errors() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    show_users_frames(first)
    assert first.__context__ is second


def test_functions_keep_their_names() -> None:
    """Rewriting puts a function into another one, whose name Python's errors would show."""

    def scaled(x: Any) -> Any:
        def by() -> float:
            return 2.0

        return by(x)  # type: ignore[call-arg]

    expected = r"<locals>\.scaled\.<locals>\.by\(\) takes 0 positional arguments but 1 was given"
    for call in (pe.kernel(scaled), pe.kernel(scaled).debug):
        with pytest.raises(TypeError, match=f"^test_functions_keep_their_names.{expected}"):
            call(X)
