"""Kernels as plain Python, step by step: `Kernel.debug`.

`rewrite.py` changes a function as little as can be (subscripts, calls, `/`), so that statements
stay Python's own: `print`, `breakpoint()` and coverage work in the user's lines.  `values.py` has
integers and accumulators that know what a kernel's know; `loops.py` runs one iteration after the
other; `session.py` has the hooks, and `pe.table` and its kin.  Layer 8, beside `kernels.py`.
"""
