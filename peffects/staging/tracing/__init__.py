"""The program that staging writes: regions, types, promotion, sizes and their algebra.

No symbol has operators here; those are in `scalars/` and `structures/`.
"""
