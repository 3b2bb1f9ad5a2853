"""The parallel `for`: index sets, tables, monoids, `pfor`, executors, `run`.

Nothing here knows kernels: what runs as native code is staged and compiled above.
"""

from peffects.machine.resuming.parallel_for import OnTick
from peffects.parallel.executors.local import Executor, Serial, Shuffled, Threads, report
from peffects.parallel.executors.processes import Processes
from peffects.parallel.executors.progress import ProgressBar
from peffects.parallel.index_sets.dependent import (
    Above,
    Below,
    From,
    Ragged,
    Range,
    Upto,
    inject,
    tile,
)
from peffects.parallel.index_sets.index_set import Fin, Idx, IndexSet, Product, Sum
from peffects.parallel.index_sets.packed import Packed, pack, ragged
from peffects.parallel.index_sets.structures import Bool, Elements, Maybe, Post, Unit, match
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
    "Above",
    "Below",
    "Bool",
    "Elements",
    "Executor",
    "Fin",
    "From",
    "Idx",
    "IndexSet",
    "Maybe",
    "Monoid",
    "OnTick",
    "Packed",
    "Post",
    "Processes",
    "Product",
    "ProgressBar",
    "Ragged",
    "Range",
    "Serial",
    "Shuffled",
    "Sum",
    "Table",
    "Threads",
    "Unit",
    "Upto",
    "arrays",
    "dict_of",
    "inject",
    "match",
    "pack",
    "pfor",
    "ragged",
    "report",
    "run",
    "run_async",
    "tile",
    "tuple_of",
    "use_executor",
]
