"""From a user's function to a `Program`: symbols, source rewriting, and the loop operations.

`stage.py` is the way in.  A function is run once, on tracers (`scalars/symbols.py`,
`structures/tables.py`) that emit IR into the current trace (`tracing/trace.py`), after its source
was rewritten so that Python's control flow calls hooks (`rewriting/rewrite.py`, `hooks/hooks.py`).
What users call are the operations of `loops/ops.py` and the functions of `scalars/maths.py`.
"""
