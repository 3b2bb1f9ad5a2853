"""A pool of native threads that take the chunks of a team, in fifty lines of LLVM code.

A *team* is four words: next chunk, number of chunks, address of the kernel, address of the frame.
`take_chunks` takes the next chunk from the team's atomic counter and calls the kernel with it until
there are none, so that a slow chunk delays nobody.  `run` publishes a team with as many *tickets*
as threads may help, takes chunks itself, withdraws the tickets left and waits for those who joined.

There is one pool in a process.  A launch that finds it taken (by another Python thread) takes all
its chunks itself, which keeps the processors as busy and asks for no more threads than there are.
Idle threads spin for some 50 microseconds, then sleep.  They never run Python code and end with the
process; a forked child has none of them and makes a pool of its own.

OpenMP was tried: with two launching threads (the user's and the helper of `launcher.py`) it keeps
two teams, counts more threads than processors, stops spinning, and takes 50 microseconds a launch,
not 5.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from peffects.codegen.load.machine_code import image_of_text
from peffects.codegen.program.loop_programs import FAILED_SLOT

__all__ = ["TEAM_WORDS", "Pool", "current_pool", "processor_count"]

TEAM_WORDS = 4
_POOL_WORDS = 48
"""Words: 0 taken; 8 epoch, 9 tickets (high half) and helpers at work (low half), 10 team, 11 spins;
16 sleepers; 24 mutex; 32 condition.  Each group has cache lines of its own."""
_SPINS = 4000
_X86_RELAX = ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()")
_ARM_RELAX = ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)")
_RELAX = {
    "x86_64": _X86_RELAX,
    "AMD64": _X86_RELAX,
    "aarch64": _ARM_RELAX,
    "arm64": _ARM_RELAX,
}
"""What tells the processor that this is a loop that waits, and its declaration."""

_CODE = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define void @take_chunks(ptr %team) {
entry:
  %chunks.at = getelementptr i64, ptr %team, i64 1
  %chunks = load i64, ptr %chunks.at
  %kernel.at = getelementptr i64, ptr %team, i64 2
  %kernel = load ptr, ptr %kernel.at
  %frame.at = getelementptr i64, ptr %team, i64 3
  %frame = load i64, ptr %frame.at
  %slots = inttoptr i64 %frame to ptr
  %failed.at = getelementptr i64, ptr %slots, i64 FAILED_SLOT
  br label %take
take:
  %chunk = atomicrmw add ptr %team, i64 1 monotonic
  %more = icmp slt i64 %chunk, %chunks
  br i1 %more, label %check, label %done
check:
  ; chunks are taken in order: those not yet taken come after the one that failed
  %failed = load atomic i64, ptr %failed.at monotonic, align 8
  %well = icmp eq i64 %failed, 0
  br i1 %well, label %run, label %done
run:
  call void %kernel(i64 %chunk, i64 %frame)
  br label %take
done:
  ret void
}

define void @run(ptr %pool, ptr %team, i64 %helpers) {
entry:
  %epoch.at = getelementptr i64, ptr %pool, i64 8
  %state.at = getelementptr i64, ptr %pool, i64 9
  %team.at = getelementptr i64, ptr %pool, i64 10
  %sleepers.at = getelementptr i64, ptr %pool, i64 16
  %mutex = getelementptr i64, ptr %pool, i64 24
  %condition = getelementptr i64, ptr %pool, i64 32
  %claim = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %ours = extractvalue { i64, i1 } %claim, 1
  br i1 %ours, label %publish, label %alone
alone:
  call void @take_chunks(ptr %team)
  ret void
publish:
  store atomic ptr %team, ptr %team.at release, align 8
  %tickets = shl i64 %helpers, 32
  store atomic i64 %tickets, ptr %state.at release, align 8
  %epoch = atomicrmw add ptr %epoch.at, i64 1 seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %w1 = call i32 @pthread_mutex_lock(ptr %mutex)
  %w2 = call i32 @pthread_cond_broadcast(ptr %condition)
  %w3 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %help
help:
  call void @take_chunks(ptr %team)
  %withdrawn = atomicrmw and ptr %state.at, i64 4294967295 acq_rel
  br label %wait
wait:
  %round = phi i64 [ 0, %help ], [ %next, %relax ], [ %next, %yield ]
  %working = load atomic i64, ptr %state.at acquire, align 8
  %over = icmp eq i64 %working, 0
  br i1 %over, label %done, label %again
again:
  %next = add i64 %round, 1
  %short = icmp ult i64 %round, 1000
  br i1 %short, label %relax, label %yield
relax:
  RELAX
  br label %wait
yield:
  %y = call i32 @sched_yield()
  br label %wait
done:
  store atomic i64 0, ptr %pool release, align 8
  ret void
}

define ptr @serve(ptr %pool) {
entry:
  %epoch.at = getelementptr i64, ptr %pool, i64 8
  %state.at = getelementptr i64, ptr %pool, i64 9
  %team.at = getelementptr i64, ptr %pool, i64 10
  %spins.at = getelementptr i64, ptr %pool, i64 11
  %sleepers.at = getelementptr i64, ptr %pool, i64 16
  %mutex = getelementptr i64, ptr %pool, i64 24
  %condition = getelementptr i64, ptr %pool, i64 32
  br label %look
look:
  ; the epoch is read before the tickets, so tickets that come later show as another epoch
  %seen = load atomic i64, ptr %epoch.at seq_cst, align 8
  br label %join
join:
  %state = load atomic i64, ptr %state.at acquire, align 8
  %tickets = lshr i64 %state, 32
  %none = icmp eq i64 %tickets, 0
  br i1 %none, label %idle, label %claim
claim:
  %joined = sub i64 %state, 4294967295
  %pair = cmpxchg ptr %state.at, i64 %state, i64 %joined acq_rel monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %help, label %join
help:
  %team = load atomic ptr, ptr %team.at acquire, align 8
  call void @take_chunks(ptr %team)
  %left = atomicrmw sub ptr %state.at, i64 1 acq_rel
  br label %look
idle:
  %spins = load atomic i64, ptr %spins.at monotonic, align 8
  br label %spin
spin:
  %round = phi i64 [ 0, %idle ], [ %next, %relax ]
  %epoch = load atomic i64, ptr %epoch.at acquire, align 8
  %news = icmp ne i64 %epoch, %seen
  br i1 %news, label %look, label %patience
patience:
  %next = add i64 %round, 1
  %longer = icmp ult i64 %round, %spins
  br i1 %longer, label %relax, label %sleep
relax:
  RELAX
  br label %spin
sleep:
  %s1 = call i32 @pthread_mutex_lock(ptr %mutex)
  %s2 = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  br label %doze
doze:
  %now = load atomic i64, ptr %epoch.at seq_cst, align 8
  %called = icmp ne i64 %now, %seen
  br i1 %called, label %rise, label %nap
nap:
  %n1 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %doze
rise:
  %r1 = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  %r2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %look
}
"""


def processor_count() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool:
    """Native threads, started as launches ask for them."""

    __slots__ = ("_image", "_lock", "_memory", "_run", "_started", "_take_chunks", "_words")

    def __init__(self) -> None:
        code = _CODE.replace("FAILED_SLOT", str(FAILED_SLOT))
        relax, declaration = _RELAX.get(platform.machine(), ("", ""))
        code = declaration + code.replace("RELAX", relax)
        self._image = image_of_text(code, ["take_chunks", "run", "serve"])
        addresses, word = self._image.addresses, ctypes.c_int64
        # These calls release the interpreter lock.
        self._take_chunks = ctypes.CFUNCTYPE(None, word)(addresses["take_chunks"])
        self._run = ctypes.CFUNCTYPE(None, word, word, word)(addresses["run"])
        self._words = np.zeros(_POOL_WORDS + 8, np.int64)
        self._memory = -(-self._words.ctypes.data // 64) * 64
        self._started = 0
        self._lock = threading.Lock()
        process = ctypes.CDLL(None)
        process.pthread_mutex_init(ctypes.c_void_p(self._memory + 8 * 24), None)
        process.pthread_cond_init(ctypes.c_void_p(self._memory + 8 * 32), None)
        # Threads use code and memory until the process ends, also when the interpreter is gone.
        for immortal in (self._image, self._words):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))

    def run(self, team: int, threads: int) -> None:
        """Run all chunks of the team at address `team`, here and in up to `threads - 1` others."""
        if threads == 1:
            self._take_chunks(team)
            return
        if threads - 1 > self._started:
            self._start(threads - 1)
        self._run(self._memory, team, threads - 1)

    def _start(self, count: int) -> None:
        """Have `count` threads; with fewer, should the system refuse one, launches are slower."""
        serve = ctypes.c_void_p(self._image.addresses["serve"])
        create = ctypes.CDLL(None).pthread_create
        with self._lock, _no_signals():
            while self._started < count:
                thread = ctypes.c_void_p()
                if create(ctypes.byref(thread), None, serve, ctypes.c_void_p(self._memory)):
                    break
                self._started += 1
            spins = ctypes.c_int64.from_address(self._memory + 8 * 11)
            spins.value = _SPINS if self._started < processor_count() else 0


@contextmanager
def _no_signals() -> Iterator[None]:
    """Threads started here inherit that signals are for others."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Current:
    """The pool of this process, once it is needed."""

    pool: Pool | None = None
    lock = threading.Lock()


def _forget() -> None:
    """In a forked child: the threads are gone, and locks may be held by threads that are gone."""
    _Current.pool = None
    _Current.lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def current_pool() -> Pool:
    """The pool of this process."""
    if _Current.pool is None:
        with _Current.lock:
            if _Current.pool is None:
                _Current.pool = Pool()
    return _Current.pool
