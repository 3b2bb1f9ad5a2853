"""Iterations in worker processes: results, failures with the user's lines, logs, deaths."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peffects as pe
from peffects.errors import LoopCancelled, MissingExtraError, NotPicklable, WorkerDied
from peffects.handlers import Err, Ok, accum, accumulate, attempt, get, put, run_state, throw
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import ADD, Fin, Processes, pfor, report, run


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


@effectful
def tells(i: int) -> Any:
    yield from accum(i)
    return os.getpid()


def test_an_effectful_body_keeps_its_handlers(processes: Processes) -> None:
    total, pids = run(handle(accumulate(ADD), pfor(Fin(20), tells)), executor=processes)
    assert total == 190
    assert os.getpid() not in set(pids)


def test_functions_defined_here_and_there_travel(processes: Processes) -> None:
    offset = 10

    @effectful
    def local(i: int) -> Any:
        s: int = yield from get()
        yield from put(s + i)
        return s + offset

    computation = pfor(Fin(4), lambda i: handle(run_state(int(i)), local(i)))
    assert run(computation, executor=processes) == [(0, 10), (2, 11), (4, 12), (6, 13)]


SCRIPT = """
import numpy as np
import peffects as pe
from peffects.parallel import Fin, Processes, pfor, run

@pe.kernel
def square(x):
    return pe.sum(lambda i: x[i] ** 2)

@pe.kernel
def fourth(x):
    return square(x) ** 2

slope = pe.grad(fourth)

def body(i):
    x = np.full(2, float(i))
    return float(fourth(x)), slope(x).tolist()

with Processes(1) as executor:
    print(list(run(pfor(Fin(3), body), executor=executor)))
    print(list(run(pfor(Fin(3), lambda i: body(i)[0]), executor=executor)))
"""


def test_kernels_of_a_script_travel(tmp_path: Path) -> None:
    """The worker's `__main__` is another module: they go by value, as functions there do."""
    script = tmp_path / "script_with_kernels.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(pe.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment
    )
    first, second = done.stdout.splitlines() or [done.stderr, ""]
    assert first == "[(0.0, [0.0, 0.0]), (4.0, [8.0, 8.0]), (64.0, [64.0, 64.0])]"
    assert second == "[0.0, 4.0, 64.0]"


class Shy:
    """Pickles, and cannot be put together again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def test_a_body_that_cannot_be_read_is_a_failure_that_says_so(processes: Processes) -> None:
    shy = Shy()
    with pytest.raises(
        NotPicklable, match=r"in a worker process: ValueError: .*no number"
    ) as caught:
        run(pfor(Fin(2), lambda i: shy), executor=processes)
    assert "run(pfor(Fin(2), lambda i: shy)" in caught.value.at.snippet()
    assert list(run(pfor(Fin(2), lambda i: int(i)), executor=processes)) == [0, 1]


def test_an_empty_loop_starts_no_process() -> None:
    executor = Processes(2)
    assert run(pfor(Fin(0), tells), executor=executor) == []
    assert executor._idle == []


def test_workers_are_kept_for_the_next_loop_until_they_are_closed() -> None:
    with Processes(1) as executor:
        first, again = (
            set(run(pfor(Fin(3), lambda i: os.getpid()), executor=executor)) for _ in range(2)
        )
        assert first == again
    assert set(run(pfor(Fin(3), lambda i: os.getpid()), executor=executor)) != first
    executor.close()


def test_a_loop_inside_an_iteration_runs_in_its_process(processes: Processes) -> None:
    @effectful
    def outer(i: int) -> Any:
        inner = yield from pfor(Fin(3), lambda j: (i * j, os.getpid()))
        return [value for value, _ in inner], {pid for _, pid in inner} == {os.getpid()}

    assert run(pfor(Fin(3), outer), executor=processes) == [
        ([0, 0, 0], True),
        ([0, 1, 2], True),
        ([0, 2, 4], True),
    ]


class Refused(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} {b}")


def test_a_failure_comes_with_its_index_the_user_s_line_and_its_class(
    processes: Processes,
) -> None:
    def body(i: int) -> int:
        if i in (17, 23, 31):
            raise LookupError(f"bad {int(i)}")
        return i

    @effectful
    def program() -> Any:
        return (yield from pfor(Fin(40), body))

    with pytest.raises(LookupError, match="bad 17") as caught:
        run(program(), executor=processes)
    index, lines = caught.value.__notes__
    assert index.startswith("in iteration 17 of the parallel for at test_processes.py:")
    assert 'test_processes.py", line' in lines
    assert "in body" in lines
    assert "machine.py" not in lines


def test_results_beside_failures_are_kept(processes: Processes) -> None:
    @effectful
    def body(i: int) -> Any:
        if i == 1:
            yield from throw("no")
        return int(i)

    table = run(pfor(Fin(3), lambda i: attempt(body(i))), executor=processes)
    assert table == [Ok(0), Err("no"), Ok(2)]


def test_an_exception_whose_constructor_wants_other_arguments_comes_back(
    processes: Processes,
) -> None:
    def body(i: int) -> None:
        raise Refused(1, 2)

    with pytest.raises(Refused) as caught:
        run(pfor(Fin(1), body), executor=processes)
    assert str(caught.value) == "1 2"


def test_bodies_and_results_that_do_not_pickle_are_refused_with_the_line(
    processes: Processes,
) -> None:
    lock = threading.Lock()

    @effectful
    def program(body: Any) -> Any:
        return (yield from pfor(Fin(3), body))

    with pytest.raises(NotPicklable, match="body of a parallel for cannot travel") as caught:
        run(program(lambda i: lock.locked()), executor=processes)
    assert caught.value.at.function == "program"
    with pytest.raises(NotPicklable, match=r"result <unlocked .* of iteration 2 cannot travel"):
        run(program(lambda i: threading.Lock() if i == 2 else i), executor=processes)


def test_a_failure_ends_workers_whose_iterations_come_later() -> None:
    def body(i: int) -> None:
        if i == 0:
            time.sleep(0.2)
            raise ValueError("first")
        time.sleep(30)

    started = time.monotonic()
    with Processes(2, chunk=1) as executor, pytest.raises(ValueError, match="first"):
        run(pfor(Fin(2), body), executor=executor)
    assert time.monotonic() - started < 15


def test_a_killed_worker_is_an_error_and_the_next_loop_runs() -> None:
    def body(i: int) -> int:
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    with Processes(2, chunk=2) as executor:
        with pytest.raises(WorkerDied, match=r"killed by SIGKILL\) while .* iterations 4 to 5"):
            run(pfor(Fin(10), body), executor=executor)
        assert run(pfor(Fin(3), lambda i: int(i)), executor=executor) == [0, 1, 2]


def test_a_worker_killed_between_loops_is_an_error_too() -> None:
    with Processes(1) as executor:
        (pid,) = run(pfor(Fin(1), lambda i: os.getpid()), executor=executor)
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        with pytest.raises(WorkerDied):
            run(pfor(Fin(1), lambda i: 1), executor=executor)


def leaves(i: int) -> None:
    os._exit(3)


def test_a_worker_that_leaves_is_an_error() -> None:
    with Processes(1) as executor, pytest.raises(WorkerDied, match="exit code 3"):
        run(pfor(Fin(1), leaves), executor=executor)


def test_log_records_come_back(processes: Processes, caplog: pytest.LogCaptureFixture) -> None:
    def body(i: int) -> None:
        logging.getLogger("user.module").warning("at %s", {int(i)})
        try:
            divmod(1, 0)
        except ZeroDivisionError:
            logging.getLogger("user.module").exception("failed")

    run(pfor(Fin(2), body), executor=processes)
    assert {"at {0}", "at {1}"} <= {record.getMessage() for record in caplog.records}
    assert "ZeroDivisionError" in caplog.text


def test_ticks_and_reports_come_back() -> None:
    ticks: list[tuple[float, int]] = []

    def body(i: int) -> None:
        for step in range(4):
            time.sleep(0.12)
            report(step / 4)

    with Processes(2, chunk=1) as executor:
        run(pfor(Fin(2), body), executor=executor, on_tick=lambda d, n, s: ticks.append((d, n)))
    assert [total for _, total in ticks] == [2] * len(ticks)
    assert ticks[-1][0] == 2
    assert any(0 < done < 2 and done != int(done) for done, _ in ticks)
    assert sorted(ticks) == ticks


def test_an_error_in_the_callback_ends_the_loop() -> None:
    def refuse(done: float, total: int, elapsed_s: float) -> None:
        raise LoopCancelled("enough")

    with Processes(1) as executor, pytest.raises(LoopCancelled, match="enough"):
        run(pfor(Fin(2), lambda i: time.sleep(0.3)), executor=executor, on_tick=refuse)


def test_without_cloudpickle_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'peffects\[processes\]'"):
        Processes()


@pytest.mark.parametrize(("workers", "chunk"), [(0, None), (2, 0)])
def test_processes_without_workers_are_refused(workers: int, chunk: int | None) -> None:
    with pytest.raises(ValueError, match="workers and chunk are at least 1"):
        Processes(workers, chunk)


def test_an_executor_travels_as_its_description() -> None:
    executor = pickle.loads(pickle.dumps(Processes(3, chunk=5)))
    assert repr(executor) == "Processes(3, chunk=5)"
