"""Calls of kernels from many threads, in other processes, interrupted, watched; always one result.

Kernels here have sums large enough for several chunks, so that the number of threads could matter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.codegen.load import loader
from peffects.errors import AllocationError, LaunchTimeoutError
from peffects.kernels.kernel import Kernel
from peffects.parallel import Serial, Threads

RNG = np.random.default_rng(5)
X, MEAN = RNG.normal(size=(20_000, 6)), RNG.normal(size=(4, 6))
CELLS = RNG.integers(0, 1000, 300_000)


def log_likelihood(x: Any, mean: Any) -> Any:
    """Sums with rounding errors, whose order shows in the last bits."""

    def of_point(n: Any) -> Any:
        return pe.logsumexp(lambda k: -pe.sum(lambda j: (x[n, j] - mean[k, j]) ** 2))

    return pe.sum(of_point)


def histogram(weight: Any) -> Any:
    h: Any = pe.accumulator(pe.Fin(1000), dtype=float)
    for i in pe.par(CELLS):
        h[CELLS[i] // 2] += weight[CELLS[i]]
    return h


def spread(weight: Any) -> Any:
    h = histogram(weight)
    return pe.sum(lambda b: h[b] ** 2)


@pe.kernel
def counted(n: Any) -> Any:
    """Runs for about `n` nanoseconds, and cannot be summed in closed form."""
    count = 0
    x = 0.5
    while count < n:
        x = 3.7 * x * (1.0 - x)
        count += 1
    return x


def bits(values: Any) -> list[bytes]:
    flat = values if isinstance(values, tuple) else (values,)
    return [np.asarray(value).tobytes() for value in flat]


# --- threads -------------------------------------------------------------------------------------


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "value": (Kernel(log_likelihood), (X, MEAN)),
    "gradient": (pe.grad(log_likelihood, (0, 1)), (X, MEAN)),
    "histogram": (Kernel(histogram), (RNG.normal(size=1000),)),
    "gradient of a histogram": (pe.value_and_grad(spread), (RNG.normal(size=1000),)),
}


@pytest.mark.parametrize("what", CALLS)
def test_any_number_of_threads_gives_the_same_bits(what: str) -> None:
    kernel, args = CALLS[what]
    with pe.threads(1):
        expected = bits(kernel(*args))
    for threads in (1, 2, 3, 4, 4):
        with pe.threads(threads):
            assert bits(kernel(*args)) == expected


def test_first_calls_from_eight_threads_compile_once() -> None:
    kernel = Kernel(log_likelihood)
    staged: list[int] = []
    stage = kernel.stage

    def counting(args: Any, kwargs: Any) -> Any:
        staged.append(len(args))
        return stage(args, kwargs)

    kernel.stage = counting  # type: ignore[method-assign]
    barrier = threading.Barrier(8)

    def first(_: int) -> Any:
        barrier.wait()
        return kernel(X[:50], MEAN)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(first, range(8)))
    assert staged == [2]
    assert len({float(value) for value in found}) == 1


def test_calls_from_eight_threads_at_once() -> None:
    value, gradient = Kernel(log_likelihood), pe.value_and_grad(log_likelihood, 1)
    parts = [X[k : k + 500 + k] for k in range(24)]
    expected = [bits((value(part, MEAN), *gradient(part, MEAN))) for part in parts]

    def both(part: Any) -> list[bytes]:
        return bits((value(part, MEAN), *gradient(part, MEAN)))

    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(both, parts)) == expected


def test_specializations_of_many_types_from_many_threads() -> None:
    @pe.kernel
    def scaled(x: Any, by: Any) -> Any:
        return pe.table(lambda i: x[i] * by)

    types = [np.float32, np.float64, np.int32, np.int64] * 4

    def call(dtype: Any) -> Any:
        return scaled(np.arange(5, dtype=dtype), dtype(3))

    with ThreadPoolExecutor(8) as pool:
        for dtype, found in zip(types, pool.map(call, types), strict=True):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, 3 * np.arange(5))
    assert repr(scaled).endswith("scaled, 4 specializations>")


@pytest.mark.parametrize("executor", [Serial(), Threads(2), Threads(8)], ids=str)
def test_kernels_in_the_body_of_a_parallel_for(executor: Any) -> None:
    kernel = Kernel(log_likelihood)
    gradient = pe.grad(kernel, 1)

    def body(i: int) -> Any:
        part = X[100 * i : 100 * i + 2000]
        return float(kernel(part, MEAN)), gradient(part, MEAN).tolist()

    found = pe.run(pe.pfor(pe.Fin(12), body), executor=executor)
    assert list(found) == [body(i) for i in range(12)]


# --- processes -----------------------------------------------------------------------------------

PROGRAM = """
    import numpy as np
    import peffects as pe
    from peffects.codegen.load import loader

    @pe.kernel
    def dot(x, y):
        return pe.sum(lambda i: x[i] * y[i])

    x = np.arange(5.0)
    print(dot(x, x), pe.grad(dot)(x, x).tolist())
    print(loader.statistics.compiled, loader.statistics.from_disk)
    import sys
    print("numba" in sys.modules)
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    environment = os.environ | {"PEFFECTS_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> list[str]:
        return subprocess.run(
            [sys.executable, str(file)],
            env=environment | {"PYTHONPATH": str(Path(pe.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")[:3]

    values = "30.0 [0.0, 1.0, 2.0, 3.0, 4.0]"
    assert run() == [values, "2 0", "True"]
    assert run() == [values, "0 2", "False"]


def test_equal_kernels_share_their_machine_code() -> None:
    def make() -> Any:
        return pe.kernel(lambda x: pe.sum(lambda i: x[i] * 17.25))

    make()(X[0])
    before = loader.statistics.compiled, loader.statistics.from_disk
    keep = make()
    keep(X[0])
    assert loader.statistics.compiled == before[0]


# --- long calls ----------------------------------------------------------------------------------

ENDLESS = 1 << 50


def test_ctrl_c_stops_a_long_kernel() -> None:
    counted(10)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        counted(ENDLESS)
    assert time.perf_counter() - start < 2.0
    timer.join()
    assert counted(10) == counted(10)


def test_timeouts_name_the_kernel() -> None:
    with pe.launch_options(timeout_s=0.1), pytest.raises(LaunchTimeoutError, match="counted"):
        counted(ENDLESS)


def test_progress_is_told() -> None:
    told: list[float] = []
    with pe.launch_options(progress=lambda progress: told.append(progress.fraction)):
        counted(10)
        Kernel(log_likelihood)(X, MEAN)
    assert told[-1] == 1.0
    assert all(0.0 <= fraction <= 1.0 for fraction in told)


def test_sizes_whose_product_is_no_index_are_refused() -> None:
    everywhere = pe.kernel(lambda n: pe.table(lambda i, j: 1.0, over=(n, n)))
    with pytest.raises(AllocationError):
        everywhere(2**33)
