"""The parallel `for`: index sets, tables, monoids, `pfor`, executors, `run`."""

from peffects.loops import OnTick
from peffects.parallel.executors import Executor, Serial, Shuffled, Threads, report
from peffects.parallel.index_set import Fin, Idx, IndexSet, Product
from peffects.parallel.monoid import (
    ADD,
    ALL,
    ANY,
    CONCATENATE,
    JOIN,
    LIST,
    MAX,
    MIN,
    MULTIPLY,
    Monoid,
    arrays,
    dict_of,
    tuple_of,
)
from peffects.parallel.pfor import pfor
from peffects.parallel.processes import Processes
from peffects.parallel.progress import ProgressBar
from peffects.parallel.running import run, use_executor
from peffects.parallel.table import Table
from peffects.parallel.tasks import run_async

__all__ = [
    "ADD",
    "ALL",
    "ANY",
    "CONCATENATE",
    "JOIN",
    "LIST",
    "MAX",
    "MIN",
    "MULTIPLY",
    "Executor",
    "Fin",
    "Idx",
    "IndexSet",
    "Monoid",
    "OnTick",
    "Processes",
    "Product",
    "ProgressBar",
    "Serial",
    "Shuffled",
    "Table",
    "Threads",
    "arrays",
    "dict_of",
    "pfor",
    "report",
    "run",
    "run_async",
    "tuple_of",
    "use_executor",
]
