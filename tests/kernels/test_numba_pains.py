"""What users of parallel loops in Python suffer elsewhere: a short test for each.

Each test names the pain that users of numba and its kin report; the thorough tests of the part that
heals it are beside that part.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import peffects as pe
from peffects import Eff, Err, Fin, Ok, effectful, handle, pfor, run
from peffects.errors import (
    BoundsError,
    DataRaceError,
    IndexSetMismatchError,
    KernelTypeError,
    LaunchTimeoutError,
)
from peffects.handlers import Random, Throw, attempt, prng, throw, uniform
from peffects.parallel import Serial, Shuffled, Threads

RNG = np.random.default_rng(3)
X = np.arange(6.0)


@pe.kernel
def histogram(at: Any, bins: Any) -> Any:
    h = pe.accumulator(bins, dtype=int)
    for i in pe.par(at):
        h[at[i]] += 1
    return h


@pe.kernel
def gathered(x: Any, at: Any) -> Any:
    return pe.table(lambda i: x[at[i]])


@pe.kernel
def endless(limit: Any) -> Any:
    def of(i: Any) -> Any:
        y = 1.0 * i
        while y < limit:
            y += 1e-6
        return y

    return pe.table(of, over=8)


def test_no_increment_is_lost() -> None:
    at = RNG.integers(0, 7, 1_000_000)
    for threads in (1, 2, 4):
        with pe.threads(threads):
            assert histogram(at, 7).tolist() == np.bincount(at, minlength=7).tolist()


def test_a_loop_that_would_race_is_refused() -> None:
    @pe.kernel
    def racing(x: Any, out: Any) -> Any:
        for i in pe.par(x):
            out[0] = x[i]

    with pytest.raises(DataRaceError):
        racing(X, X.copy())


def test_the_failure_of_an_iteration_arrives_the_first_one_with_its_line() -> None:
    at = np.zeros(500_000, int)
    at[[100_000, 400_000]] = 77, 88
    for threads in (1, 4):
        with pe.threads(threads), pytest.raises(BoundsError, match="index 77") as caught:
            gathered(X, at)
        assert "x[at[i]]" in caught.value.at.snippet()


def test_bounds_are_tested_in_parallel_and_can_be_left_untested() -> None:
    @pe.kernel
    def unchecked(x: Any, at: Any) -> Any:
        return pe.table(lambda i: pe.unchecked(x)[at[i]])

    at = np.array([5, 0])
    assert unchecked(X, at).tolist() == gathered(X, at).tolist() == [5.0, 0.0]
    with pytest.raises(BoundsError):
        gathered(X, np.array([6]))
    assert "?" not in pe.explain(unchecked, X, at).sections["program"]


def test_random_numbers_have_the_same_bits_for_any_executor() -> None:
    @effectful
    def drawn(i: int) -> Eff[Random, float]:
        return (yield from uniform())

    results = [
        list(run(handle(prng(seed=4), pfor(Fin(20), drawn)), executor=executor))
        for executor in (Serial(), Threads(4), Shuffled(seed=1))
    ]
    assert results[0] == results[1] == results[2]
    assert len(set(results[0])) == 20


def test_native_loops_have_progress() -> None:
    told: list[float] = []
    with pe.launch_options(progress=lambda progress: told.append(progress.fraction)):
        histogram(RNG.integers(0, 7, 20_000_000), 7)
    assert told == sorted(told) and told[-1] == 1.0


def test_native_loops_have_timeouts() -> None:
    start = time.monotonic()
    with pe.launch_options(timeout_s=0.2), pytest.raises(LaunchTimeoutError):
        endless(1e9)
    assert time.monotonic() - start < 5.0


def interrupted_after_s() -> float:
    """How long a loop that would run for hours goes on after Ctrl-C."""
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless(1e9)
    return time.monotonic() - pressed[0]


def test_native_loops_stop_on_ctrl_c() -> None:
    endless(1.0)  # compiled before the clock runs
    assert min(interrupted_after_s() for _ in range(3)) < 0.2


def test_a_failing_point_of_a_sweep_loses_nothing() -> None:
    @effectful
    def point(i: int) -> Eff[Throw[str], int]:
        if i == 2:
            yield from throw("diverged")
        return i * i

    results = run(pfor(Fin(4), lambda i: attempt(point(i))), executor=Threads(2))
    assert list(results) == [Ok(0), Ok(1), Err("diverged"), Ok(9)]


def test_a_replaced_callee_is_not_stale() -> None:
    space: dict[str, Any] = {}

    def factor() -> Callable[[Any], Any]:
        return space["scale"]  # type: ignore[no-any-return]

    @pe.kernel
    def scaled(x: Any) -> Any:
        scale = factor()
        return pe.table(lambda i: scale(x[i]))

    space["scale"] = lambda v: 2.0 * v
    assert scaled(X).tolist() == (2.0 * X).tolist()
    space["scale"] = lambda v: 3.0 * v
    assert scaled(X).tolist() == (3.0 * X).tolist()


def test_an_edited_callee_in_another_module_is_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache on disk that a second process reads, after the module was edited."""
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(pe.__file__).parent.parent}")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    callee, user = tmp_path / "callee.py", tmp_path / "user.py"
    user.write_text(
        "import numpy as np\nimport peffects as pe\nimport callee\n"
        "kernel = pe.kernel(lambda x: pe.sum(lambda i: callee.scaled(x[i])))\n"
        "print(kernel(np.arange(3.0)))\n"
    )
    for factor in (2.0, 3.0):
        callee.write_text(f"def scaled(v):\n    return {factor} * v\n")
        done = subprocess.run(
            [sys.executable, str(user)], capture_output=True, text=True, check=True
        )
        assert float(done.stdout) == 3.0 * factor


def test_loops_have_gradients() -> None:
    @pe.kernel
    def energy(x: Any) -> Any:
        total = pe.accumulator()
        for i in pe.par(x):
            y = x[i]
            for _ in range(3):
                y = y * x[i]
            total += y
        return total

    np.testing.assert_allclose(pe.grad(energy)(X), 4.0 * X**3)


def test_overwriting_is_differentiated_right_or_refused() -> None:
    @pe.kernel
    def overwritten(x: Any) -> Any:
        y = 5.0 * x
        y = x * x
        return y

    @pe.kernel
    def in_place(x: Any) -> Any:
        x[0] = 2.0 * x[0]
        return pe.sum(x)

    assert pe.grad(overwritten)(3.0) == 6.0
    with pytest.raises(DataRaceError):
        pe.grad(in_place)(X)


def test_scatters_are_right_forwards_and_backwards() -> None:
    @pe.kernel
    def assembled(x: Any, at: Any) -> Any:
        h = pe.accumulator(3)
        for i in pe.par(at):
            h[at[i]] += x[i] ** 2
        return pe.sum(lambda b: h[b] ** 2)

    at, x = np.array([0, 2, 2, 0, 1, 2]), RNG.normal(size=6)
    h = np.bincount(at, x**2)
    assert assembled(x, at) == pytest.approx((h**2).sum())
    np.testing.assert_allclose(pe.grad(assembled)(x, at), 4.0 * h[at] * x)


def test_mistakes_of_shape_are_found_with_both_origins() -> None:
    @pe.kernel
    def product(a: Any, b: Any) -> Any:
        return pe.table(lambda i: pe.sum(lambda k: a[i, k] * b[k]))

    with pytest.raises(IndexSetMismatchError, match=r"axis 0 of `b` .* axis 1 of `a`"):
        product(np.ones((2, 3)), np.ones(4))


def test_the_decorator_keeps_the_signature() -> None:
    @pe.kernel
    def scaled(x: NDArray[np.float64], factor: float = 2.0) -> NDArray[np.float64]:
        """Scale."""
        return pe.table(lambda i: factor * x[i])  # type: ignore[no-any-return]

    parameters = inspect.signature(scaled).parameters
    assert list(parameters) == ["x", "factor"]
    assert parameters["factor"].default == 2.0
    assert scaled.__doc__ == "Scale."


def test_errors_of_types_tell_the_line_what_was_found_and_what_to_write() -> None:
    @pe.kernel
    def wrong(x: Any, y: Any) -> Any:
        return pe.table(lambda i: x[i] + y[i, i])  # here

    with pytest.raises(KernelTypeError) as caught:
        wrong(X, X)
    assert "# here" in caught.value.at.snippet()
    assert "`y`" in caught.value.what
    assert caught.value.fix


def test_many_python_threads_may_launch() -> None:
    at = RNG.integers(0, 7, 200_000)
    expected = np.bincount(at, minlength=7).tolist()
    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: results.append(histogram(at, 7).tolist())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_launch() -> None:
    at = RNG.integers(0, 7, 200_000)
    expected = histogram(at, 7).tolist()
    child = os.fork()
    if child == 0:
        os._exit(0 if histogram(at, 7).tolist() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_unequal_iterations_are_shared_out_and_explain_shows_it() -> None:
    @pe.kernel
    def triangle(x: Any) -> Any:
        def of(i: Any) -> Any:
            total = 0.0
            for j in range(i + 1):
                total += x[j]
            return total

        return pe.table(of, over=x)

    x = RNG.random(3000)
    np.testing.assert_allclose(triangle(x), np.cumsum(x))
    explanation = pe.explain(triangle, x)
    assert "parallel" in explanation.sections["loops"]
    assert "chunk" in explanation.sections["stages"]
