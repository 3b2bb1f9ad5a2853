"""From a user's function to a `Program`: symbols, source rewriting, and the loop operations.

`stage.py` is the way in.  A function is run once, on tracers (`scalars.py`, `tables.py`) that emit
IR into the current trace (`trace.py`), after its source was rewritten so that Python's control
flow calls hooks (`rewrite.py`, `hooks.py`).  What users call are the operations of `ops.py` and
the functions of `maths.py`.
"""
