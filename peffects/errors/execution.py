"""How computations are run: resumptions on threads, worlds, processes, asyncio: PE13x.

The page of each, which `python -m peffects explain CODE` prints, is in `docs/errors`.
"""

from __future__ import annotations

from peffects.errors.base import PeffectsError


class ResumedConcurrently(PeffectsError):
    """Two threads run one suspended computation at once.

    A suspended computation may move to another thread, but only one thread may run it.

    Wrong::

        def question(self, op, k):
            return (yield from pfor(Fin(2), lambda i: k(i)))    # both iterations resume one k

        shared = (get() for _ in [0])                           # one generator object,
        pfor(Fin(2), lambda i: shared)                          # performed by two iterations

    Right: mark the clause with `@multi`, so that each iteration runs a world of its own; pass the
    function, not its generator::

        @multi
        def question(self, op, k): ...
    """

    code = "PE130"


class AnswerMutated(PeffectsError):
    """Debug mode: an answer was changed after it was given, and a further world would see it.

    Worlds share the answers of operations and calls.

    Wrong::

        xs = yield from get()           # a list
        xs.append(yield from amb([1, 2]))

    Right: make a new object::

        xs = xs + [(yield from amb([1, 2]))]
    """

    code = "PE131"


class ResourceNotReplayable(PeffectsError):
    """A frame stands in a `with` of a resource that cannot be entered again for a further world.

    Wrong::

        file = yield from once(lambda: open(path))
        with file:
            x = yield from amb([1, 2])      # the second world enters a closed file

    Right: open it inside, so that each world has its own; or share one, which the machine closes at
    the end of the `run` or iteration::

        with open(path) as file: ...
        file = yield from shared(lambda: open(path))
    """

    code = "PE132"


class UnresumedResumption(PeffectsError, UserWarning):
    """Debug mode, a warning: a clause ended without resuming `k`, whose frames have a `finally`.

    The frames are unwound, so nothing is lost; but often somebody forgot to resume.

    Wrong::

        def question(self, op, k):
            return 0                        # and `k` is never resumed

    Right: `return (yield from k(1))`; or `yield from k.drop()` where unwinding is meant.
    """

    code = "PE133"


class NotPicklable(PeffectsError):
    """A computation cannot be pickled, since a part of it cannot.

    Wrong::

        pickled(search(open(path)))         # an open file as argument
        pickled(k)                          # k of a clause with no `@multi` handler in scope

    Right: give the path and open the file inside; a suspended computation is pickled as what its
    frames did so far, which is kept where a handler with a `@multi` clause is in scope.  Lambdas
    and functions defined in functions need the extra: `pip install 'peffects[processes]'`.
    """

    code = "PE134"


class WorkerDied(PeffectsError):
    """A worker process of `Processes` ended while it ran iterations: killed, or out of memory.

    Wrong::

        run(pfor(Fin(8), needs_20_gb_each), executor=Processes(8))

    Right: fewer workers, or less memory in an iteration.
    """

    code = "PE135"


class AwaitError(PeffectsError):
    """`await_` was performed where nothing can wait: under `run`, in a worker, in a kernel.

    Wrong::

        run(fetches())                      # performs `yield from await_(...)`

    Right::

        await run_async(fetches())
        asyncio.run(run_async(fetches()))
    """

    code = "PE136"


class MissingExtraError(PeffectsError, ImportError):
    """Something needs a package that is an optional extra of peffects.

    Wrong::

        run(program(), executor=Processes())        # without cloudpickle

    Right::

        pip install 'peffects[processes]'
    """

    code = "PE137"
