"""The parallel `for`: index sets, tables, monoids, `pfor`, executors, `run`."""

from peffects.parallel.executors import Executor, OnTick, Serial, Shuffled, Threads, report
from peffects.parallel.index_set import Fin, Idx, IndexSet, Product
from peffects.parallel.monoid import ADD, ALL, ANY, CONCATENATE, JOIN, MULTIPLY, Monoid
from peffects.parallel.pfor import pfor
from peffects.parallel.progress import Progress
from peffects.parallel.running import run, use_executor
from peffects.parallel.table import Table

__all__ = [
    "ADD",
    "ALL",
    "ANY",
    "CONCATENATE",
    "JOIN",
    "MULTIPLY",
    "Executor",
    "Fin",
    "Idx",
    "IndexSet",
    "Monoid",
    "OnTick",
    "Product",
    "Progress",
    "Serial",
    "Shuffled",
    "Table",
    "Threads",
    "pfor",
    "report",
    "run",
    "use_executor",
]
