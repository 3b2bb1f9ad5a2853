"""Index sets, plain and dependent, of structures, and packed tables over them.

Loops over them are in `pfor.py`; what kernels do with their symbols is in `staging/`.
"""
